"""The operator's bearer token: made at first start, kept in a file that only its owner reads."""

import hmac
import re
import secrets
from pathlib import Path
from typing import Protocol

from gateway.ports import StateDirError

TOKEN_FILE = "operator.token"  # noqa: S105  # the name of a file, not what is in it
SECRET_FILE = "split.secret"  # noqa: S105  # the name of a file, not what is in it


SHORTEST_TOKEN = 20
TOKEN_FORM = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, section 2.1
SECRET_FORM = re.compile(r"[0-9a-f]{64}")


class PrivateFiles(Protocol):
    """Where secrets are kept: state_dir.StateDir."""

    @property
    def path(self) -> Path: ...

    def read_private(self, name: str) -> str | None: ...

    def write_private(self, name: str, content: str) -> Path: ...


class OperatorToken:
    """Compares in constant time; the token itself appears in no log and no URL."""

    def __init__(self, state: PrivateFiles) -> None:
        self.path: Path = state.path / TOKEN_FILE
        found = state.read_private(TOKEN_FILE)
        if found is None:
            found = secrets.token_urlsafe(32)
            state.write_private(TOKEN_FILE, found + "\n")
        self._token = found.strip()
        if len(self._token) < SHORTEST_TOKEN or not TOKEN_FORM.fullmatch(self._token):
            raise StateDirError(
                f"{self.path} holds no token: {SHORTEST_TOKEN} or more letters, digits and -._~+/= are needed;"
                " remove the file to have one made"
            )

    def matches(self, presented: str) -> bool:
        """Whether ``presented`` is the token."""
        return hmac.compare_digest(presented.encode(), self._token.encode())


def split_secret(state: PrivateFiles) -> bytes:
    """The secret from which each run's split key is derived; 32 bytes, made at first start."""
    found = state.read_private(SECRET_FILE)
    if found is None:
        found = secrets.token_bytes(32).hex()
        state.write_private(SECRET_FILE, found + "\n")
    if not SECRET_FORM.fullmatch(found.strip()):
        raise StateDirError(
            f"{state.path / SECRET_FILE} holds no secret of 64 hex digits; remove the file to have one made"
            " (sticky requests are then drawn anew)"
        )
    return bytes.fromhex(found.strip())
