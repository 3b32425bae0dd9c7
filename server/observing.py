"""The sections of the configuration that say what is watched: metrics, traces, profiles."""

import os
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_EDGES: Final = 64


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def _rising(edges: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if edges is None:
        return None
    rise = all(lower < upper for lower, upper in pairwise((0.0, *edges)))
    if not (1 <= len(edges) <= MAX_EDGES and rise and isfinite(edges[-1])):
        raise ValueError(f"allowed are 1 to {MAX_EDGES} rising numbers of seconds above 0")
    return edges


def _collector(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    else:
        good = good and parts.username is None and parts.password is None
    if not good:
        raise ValueError(
            "allowed is the whole http or https URL of an OTLP/HTTP receiver without credentials, "
            "like http://127.0.0.1:4318/v1/traces"
        )
    return url


def _own_folder(folder: Path) -> Path:
    """A trace names the operations of the model: nobody else reads it, and nobody else puts a link in its place."""
    try:
        state = folder.stat()
    except OSError:
        raise ValueError("allowed is an existing folder") from None
    if not folder.is_dir() or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise ValueError(
            f"(owner {state.st_uid}, mode {state.st_mode & 0o777:o}) allowed is a folder of this user that nobody "
            "else can write to"
        )
    return folder


class MetricsSection(_Section):
    """``edges_s``: of the histograms of everything that is timed. None: 1 ms to 60 s, with the usual limits of SLOs."""

    edges_s: Annotated[tuple[float, ...] | None, AfterValidator(_rising)] = None


class TracingSection(_Section):
    """``ratio`` of requests that come without a ``traceparent``; with one its sender has decided."""

    endpoint: Annotated[str, AfterValidator(_collector)]
    ratio: float = Field(default=0.01, ge=0, le=1)


class ProfilerSection(_Section):
    """``folder`` is where traces of the device's work are kept."""

    folder: Annotated[Path, AfterValidator(_own_folder)]
