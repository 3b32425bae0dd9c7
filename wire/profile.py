"""POST /profile on the server's admin port."""

from typing import Final

import msgspec

PATH: Final = "/profile"
MIN_SECONDS: Final = 1
MAX_SECONDS: Final = 60


class ProfileBody(msgspec.Struct, frozen=True):
    """``file`` on the server's machine: a Chrome trace of ``batches`` in ``seconds``, which may be fewer than asked."""

    file: str
    batches: int
    seconds: float
    size: int
