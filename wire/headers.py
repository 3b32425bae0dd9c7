"""Header names of the product, and the parse half of those that carry a value.

Names are lower case, as ASGI and httptools deliver them. Which side may set what is
written in docs/architecture.md; a client's ``x-canary-*`` other than DEADLINE and PIN
never reaches an arm.
"""

from typing import Final

PREFIX: Final = "x-canary-"

# From clients.
REQUEST_ID: Final = "x-request-id"
DEADLINE_MS: Final = "x-canary-deadline-ms"
PIN: Final = "x-canary-pin"

# From the gateway to an arm.
EPOCH: Final = "x-canary-epoch"
SHADOW: Final = "x-canary-shadow"

# From our server to the gateway; on to the client only with ``expose_timings``.
BUCKET: Final = "x-canary-bucket"
ROWS: Final = "x-canary-rows"
QUEUE_MS: Final = "x-canary-queue-ms"
BATCH_MS: Final = "x-canary-batch-ms"
DEVICE_MS: Final = "x-canary-device-ms"
COMPILES: Final = "x-canary-compiles"
IDENTITY: Final = "x-canary-identity"

# From the gateway to a client.
ARM: Final = "x-canary-arm"
FAILOVER: Final = "x-canary-failover"

TIMINGS: Final = frozenset({BUCKET, ROWS, QUEUE_MS, BATCH_MS, DEVICE_MS, COMPILES, IDENTITY})

MAX_DEADLINE_MS: Final = 24 * 3600 * 1000


def parse_deadline_ms(value: str) -> int | None:
    """Milliseconds the caller will wait, or None when the header is no plain positive integer.

    A malformed deadline is ignored rather than refused: a wrong hint must not turn an
    answerable request into an error.
    """
    if not (0 < len(value) <= 9 and value.isascii() and value.isdigit()):
        return None
    number = int(value)
    return number if 0 < number <= MAX_DEADLINE_MS else None
