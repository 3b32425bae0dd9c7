"""Who gets a request: a keyed hash of epoch and key, nothing else.

Assignment needs no shared state, is the same in every worker and replica, is sticky per key, and is monotone: raising
the weight moves keys to the candidate and none back. The secret of the run keeps it out of a client's hands.
"""

from enum import Enum
from hashlib import blake2b
from typing import Final

from gateway.core.types import FULL_WEIGHT, Role

SLOTS: Final = FULL_WEIGHT
"""One slot is one basis point."""
_COUNTING: Final = b"counting"
"""In the place of a purpose; nothing is decided by it."""


class Purpose(Enum):
    """What a hash decides. Different purposes are independent draws for the same key (BLAKE2b's ``person``)."""

    ASSIGNMENT = b"assignment"
    COPY_TO_CANDIDATE = b"copy-candidate"
    COPY_TO_BASELINE = b"copy-baseline"
    NOISE = b"copy-noise"
    """A request of the baseline's, copied to the baseline itself."""
    ORDER = b"copy-order"
    """Whether the copy of a request is sent before it."""


def slot(secret: bytes, epoch: int, key: bytes, purpose: Purpose = Purpose.ASSIGNMENT) -> int:
    """The slot of ``key`` in 0..9999.

    ``secret`` has at most 64 bytes (BLAKE2b's key size), ``epoch`` is 0 or more. A new epoch draws afresh.
    """
    # The epoch has a fixed width, so no pair of epoch and key can be spelt in two ways.
    digest = blake2b(epoch.to_bytes(8, "big") + key, digest_size=8, key=secret, person=purpose.value).digest()
    return int.from_bytes(digest, "big") % SLOTS


def fingerprint(secret: bytes, epoch: int, key: bytes) -> int:
    """64 bits by which ``key`` is counted in one epoch and from which nobody without the secret learns it."""
    digest = blake2b(epoch.to_bytes(8, "big") + key, digest_size=8, key=secret, person=_COUNTING).digest()
    return int.from_bytes(digest, "big")


def assign(secret: bytes, epoch: int, key: bytes, weight_bp: int) -> Role:
    """The arm of ``key``: the candidate owns the slots below its weight (basis points)."""
    if weight_bp <= 0:
        return Role.BASELINE
    if weight_bp >= SLOTS:
        return Role.CANDIDATE
    return Role.CANDIDATE if slot(secret, epoch, key) < weight_bp else Role.BASELINE


def sampled(secret: bytes, epoch: int, key: bytes, share_bp: int, purpose: Purpose) -> bool:
    """Whether the request of ``key`` is copied: decided before anything in the request has been looked at."""
    if share_bp <= 0:
        return False
    return share_bp >= SLOTS or slot(secret, epoch, key, purpose) < share_bp
