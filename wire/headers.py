"""Header names of the product, and the parse half of those that carry a value.

Names are lower case, as ASGI and httptools deliver them. Which side may set what is
written in docs/architecture.md; a client's ``x-canary-*`` other than DEADLINE and PIN
never reaches an arm.
"""

import re
from typing import Final

PREFIX: Final = "x-canary-"

# From clients.
REQUEST_ID: Final = "x-request-id"
DEADLINE_MS: Final = "x-canary-deadline-ms"
PIN: Final = "x-canary-pin"
TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"

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
COMPILED: Final = "x-canary-compiled"
"""The shapes that were compiled, as ``4x128,1x128``; absent when the answer met no compile."""
IDENTITY: Final = "x-canary-identity"
PHASE: Final = "x-canary-phase"
"""Of a 504: where the request was when its deadline passed, ``tokenise``, ``queue`` or ``device``;
``admission`` when it was refused at once because it would."""

# Of the web (W3C Server Timing): the phases again, in milliseconds, for browsers and tools that know it.
SERVER_TIMING: Final = "server-timing"

# From the gateway to a client.
ARM: Final = "x-canary-arm"
FAILOVER: Final = "x-canary-failover"

TIMINGS: Final = frozenset(
    {BUCKET, ROWS, QUEUE_MS, BATCH_MS, DEVICE_MS, COMPILES, COMPILED, IDENTITY, PHASE, SERVER_TIMING}
)

MAX_DEADLINE_MS: Final = 24 * 3600 * 1000
MAX_COMPILED: Final = 4
"""Most shapes that one COMPILED header names."""

_SHAPE: Final = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6}){0,3}", re.ASCII)


def parse_deadline_ms(value: str) -> int | None:
    """Milliseconds the caller will wait, or None when the header is no plain positive integer.

    A malformed deadline is ignored rather than refused: a wrong hint must not turn an
    answerable request into an error.
    """
    if not (0 < len(value) <= 9 and value.isascii() and value.isdigit()):
        return None
    number = int(value)
    return number if 0 < number <= MAX_DEADLINE_MS else None


def parse_compiled(value: str) -> tuple[str, ...]:
    """The shapes of a COMPILED header, at most MAX_COMPILED; what is no shape is left out.

    The names end up in metrics, journal and terminals, so nothing but digits and ``x`` gets through.
    """
    if len(value) > MAX_COMPILED * 33:
        return ()
    shapes = (part.strip() for part in value.split(","))
    return tuple(shape for shape in shapes if _SHAPE.fullmatch(shape))[:MAX_COMPILED]
