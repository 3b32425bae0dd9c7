import pytest
from fakes.arms import arm_of

from gateway.adapters.upstream.messages import framed, read_head, request_head
from gateway.core.leg import Outgoing
from gateway.core.types import Role


def outgoing(**changes: object) -> Outgoing:
    values: dict[str, object] = {
        "method": "POST",
        "target": b"/v1/embeddings?q=1",
        "header_block": b"accept: */*\r\n",
        "body": b"body",
        "length": 4,
        "epoch": 7,
    }
    return Outgoing(**{**values, **changes})  # type: ignore[arg-type]  # the fields of Outgoing


def test_a_request_as_bytes() -> None:
    """Request line with the base path, the arm's Host, the client's headers, then the gateway's."""
    arm = arm_of(Role.CANDIDATE, host="tpu.local", port=8000, base_path="/base")
    assert request_head(outgoing(), arm) == (
        b"POST /base/v1/embeddings?q=1 HTTP/1.1\r\n"
        b"host: tpu.local:8000\r\n"
        b"accept: */*\r\n"
        b"x-canary-epoch: 7\r\n"
        b"content-length: 4\r\n"
        b"\r\n"
    )


def test_a_copy_with_a_deadline_for_an_address() -> None:
    """The shadow mark, milliseconds of at least one, and brackets around an IPv6 address."""
    arm = arm_of(Role.CANDIDATE, host="::1", port=1)
    got = request_head(outgoing(shadow=True, deadline_s=0.0001, length=None), arm)
    assert b"\r\nhost: [::1]:1\r\n" in got
    assert b"\r\nx-canary-shadow: 1\r\nx-canary-deadline-ms: 1\r\n\r\n" in got
    assert b"content-length" not in got


def test_a_body_of_unknown_length_goes_in_chunks() -> None:
    """Its head says so and every piece is framed; an empty piece would end it and is left out."""
    streamed = outgoing(length=None, more=True)
    assert b"transfer-encoding: chunked\r\n" in request_head(streamed, arm_of(Role.BASELINE))
    assert framed(streamed, b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert framed(streamed, b"") == b""
    assert framed(outgoing(more=True), b"plain") == b"plain"


def test_the_head_of_an_answer() -> None:
    """Type, length, compiles, compression and framing are read from the headers."""
    head, chunked = read_head(
        200,
        [
            (b"content-type", b"Text/Event-Stream; charset=utf-8"),
            (b"content-length", b"12"),
            (b"content-encoding", b"GZIP"),
            (b"x-canary-compiles", b"3"),
        ],
    )
    assert (head.status, head.length, head.compiles, head.event_stream, head.encoded) == (200, 12, 3, True, True)
    assert not chunked


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"9" * 30])
def test_a_malformed_compile_count_counts_nothing(value: bytes) -> None:
    """An arm of another make may use the header as it likes."""
    assert read_head(200, [(b"x-canary-compiles", value)])[0].compiles == 0


@pytest.mark.parametrize(
    ("compiles", "compiled", "shapes"),
    [
        (b"2", b"4x128, 1x128", ("4x128", "1x128")),
        (b"2", b"4x128,\x1b[2J,<b>", ("4x128",)),
        (b"0", b"4x128", ()),
        (b"1", b"x" * 5000, ()),
    ],
)
def test_the_shapes_of_an_answer_that_met_a_compile(compiles: bytes, compiled: bytes, shapes: tuple[str, ...]) -> None:
    """They are read in either order of the headers, only beside a count, and only what is a shape."""
    headers = [(b"x-canary-compiled", compiled), (b"x-canary-compiles", compiles)]
    assert read_head(200, headers)[0].compiled == shapes
    assert read_head(200, headers[::-1])[0].compiled == shapes


def test_a_head_says_how_much_of_the_answer_is_json() -> None:
    """Tensors follow it; the length travels with the type, wherever the header stands."""
    headers = [(b"inference-header-content-length", b"12"), (b"content-type", b"application/octet-stream")]
    for order in (headers, headers[::-1]):
        head, _ = read_head(200, order)
        assert head.content_type == "application/octet-stream; inference-header-content-length=12"
    assert read_head(200, headers[1:])[0].content_type == "application/octet-stream"


def test_identity_is_no_encoding() -> None:
    """And chunked is seen."""
    head, chunked = read_head(200, [(b"content-encoding", b"identity"), (b"transfer-encoding", b"chunked")])
    assert (head.encoded, head.length, chunked) == (False, None, True)
