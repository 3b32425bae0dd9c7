"""The sections of the configuration that say what is watched."""

from itertools import pairwise
from math import isfinite
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict

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


class MetricsSection(_Section):
    """``edges_s``: of the histograms of everything that is timed. None: 1 ms to 60 s, with the usual limits of SLOs."""

    edges_s: Annotated[tuple[float, ...] | None, AfterValidator(_rising)] = None
