import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.asgi.incoming import HOP_BY_HOP, read_headers


def test_what_is_read_and_what_is_passed_on() -> None:
    """Deadline, request id, length and key are read; only the client's own headers pass, as they were."""
    got = read_headers(
        [
            (b"host", b"gateway"),
            (b"content-type", b"application/json"),
            (b"content-length", b"12"),
            (b"x-request-id", b"r-1"),
            (b"x-canary-deadline-ms", b"1500"),
            (b"x-canary-pin", b"forged"),
            (b"x-tenant", b"acme"),
            (b"accept", b"a"),
            (b"accept", b"b"),
        ],
        b"x-tenant",
    )
    assert got.header_block == b"content-type: application/json\r\nx-tenant: acme\r\naccept: a\r\naccept: b\r\n"
    assert (got.request_id, got.deadline_s, got.key, got.length) == ("r-1", 1.5, b"acme", 12)
    assert got.content_type == b"application/json"


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP | {b"x-canary-epoch", b"x-canary-shadow", b"x-canary-anything"}))
def test_hop_by_hop_and_gateway_headers_stay_outside(name: bytes) -> None:
    """Whatever their value."""
    assert read_headers([(name, b"x")], None).header_block == b""


def test_headers_named_by_connection_stay_outside() -> None:
    """They are declared to be for this connection alone, before or after they appear."""
    headers = [
        (b"x-a", b"1"),
        (b"connection", b"X-A, keep-alive"),
        (b"connection", b"x-b"),
        (b"x-b", b"2"),
        (b"x-c", b"3"),
    ]
    assert read_headers(headers, None).header_block == b"x-c: 3\r\n"


@pytest.mark.parametrize("value", [b"", b"0", b"-1", b"1.5", b"soon", b"9999999999", "\u0661".encode()])
def test_a_malformed_deadline_is_no_deadline(value: bytes) -> None:
    """A wrong hint does not turn an answerable request into an error."""
    assert read_headers([(b"x-canary-deadline-ms", value)], None).deadline_s is None


@pytest.mark.parametrize("value", [b"", b"x" * 129, b"caf\xc3\xa9", b"a\x7fb", b"\t"])
def test_an_unfit_request_id_is_replaced(value: bytes) -> None:
    """It would go into logs and headers."""
    assert read_headers([(b"x-request-id", value)], None).request_id is None


TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(str.encode)


@given(st.lists(st.tuples(st.sampled_from([b"connection", b"x-canary-x", b"te"]) | TOKEN, TOKEN), max_size=12))
def test_nothing_of_the_gateways_ever_passes(headers: list[tuple[bytes, bytes]]) -> None:
    """No mixture lets a hop-by-hop or gateway header through, and what passes is a subset, in order."""
    block = read_headers(headers, None).header_block
    passed = [tuple(line.split(b": ", 1)) for line in block.split(b"\r\n")[:-1]]
    rest = iter(headers)
    assert all(line in rest for line in passed)
    assert not any(name in HOP_BY_HOP or name.startswith(b"x-canary-") for name, _ in passed)
