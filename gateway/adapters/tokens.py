"""The operator's bearer token: made at first start, kept in a file that only its owner reads."""

import hmac
import secrets
from pathlib import Path
from typing import Protocol

TOKEN_FILE = "operator.token"  # noqa: S105  # the name of a file, not what is in it
SECRET_FILE = "split.secret"  # noqa: S105  # the name of a file, not what is in it


class PrivateFiles(Protocol):
    """Where secrets are kept: state_dir.StateDir."""

    @property
    def path(self) -> Path: ...

    def read_private(self, name: str) -> str | None: ...

    def write_private(self, name: str, content: str) -> Path: ...


class OperatorToken:
    """Compares in constant time; the token itself appears in no log and no URL."""

    def __init__(self, state: PrivateFiles) -> None:
        found = state.read_private(TOKEN_FILE)
        self._token = found.strip() if found else secrets.token_urlsafe(32)
        self.path: Path = state.path / TOKEN_FILE
        if not found:
            state.write_private(TOKEN_FILE, self._token + "\n")

    def matches(self, presented: str) -> bool:
        """Whether ``presented`` is the token."""
        return hmac.compare_digest(presented.encode(), self._token.encode())


def split_secret(state: PrivateFiles) -> bytes:
    """The secret from which each run's split key is derived; 32 bytes, made at first start."""
    found = state.read_private(SECRET_FILE)
    if found:
        return bytes.fromhex(found.strip())
    secret = secrets.token_bytes(32)
    state.write_private(SECRET_FILE, secret.hex() + "\n")
    return secret
