"""Where the gateway is, with which token, and who asks: options first, then the environment."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

DEFAULT_URL: Final = "http://127.0.0.1:8081"

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1: b64token


class UsageError(Exception):
    """The command cannot be sent as it was written. The text says what to change."""


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway and the caller. ``token`` None: reads only."""

    url: str
    token: str | None
    who: str


def environment() -> Mapping[str, str]:
    """The process environment: CANARY_URL, CANARY_TOKEN_FILE, USER."""
    return os.environ


def target(url: str | None, token_file: str | None, who: str | None, variables: Mapping[str, str]) -> Target:
    """Options where given, else ``variables``. Raises UsageError naming the option or variable."""
    address, source = (url, "--url") if url else (variables.get("CANARY_URL") or DEFAULT_URL, "CANARY_URL")
    if not _is_http(address):
        raise UsageError(f"{source}: {address!r} is not allowed; write http://HOST:PORT of the gateway's admin port")
    user = variables.get("USER") or variables.get("LOGNAME") or "unknown"
    return Target(address.rstrip("/"), _token(token_file, variables), who or f"{user}@{socket.gethostname()}")


def _token(token_file: str | None, variables: Mapping[str, str]) -> str | None:
    path, source = (token_file, "--token-file") if token_file else (variables.get("CANARY_TOKEN_FILE"), None)
    if not path:
        return None
    source = source or "CANARY_TOKEN_FILE"
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except OSError as unreadable:
        raise UsageError(
            f"{source}: {path}: {unreadable.strerror}; the gateway wrote the token to operator.token in its state_dir"
        ) from unreadable
    except UnicodeDecodeError as binary:
        raise UsageError(f"{source}: {path} holds no token (it is not plain ASCII text)") from binary
    if not token:
        raise UsageError(f"{source}: {path} is empty")
    if not _TOKEN.fullmatch(token):  # perhaps a secret of something else, so it is not shown
        raise UsageError(f"{source}: {path} holds no token (one word of letters, digits and -._~+/ is allowed)")
    return token


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # as the connection will: no empty label, none above 63 characters
        return (
            url.isprintable() and parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        )
    except ValueError:
        return False
