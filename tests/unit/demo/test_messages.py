import asyncio

import pytest

from demo.messages import Answer, BrokenMessage, Request, parse_answer, parse_request, pass_body, with_length


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


class Sink:
    """What was written, in place of a connection."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return


def passed(raw: bytes, body: object) -> tuple[bytes, bytes]:
    """What went through of ``raw``, and what is left."""

    async def play() -> tuple[bytes, bytes]:
        reader, sink = asyncio.StreamReader(), Sink()
        reader.feed_data(raw)
        reader.feed_eof()
        await pass_body(reader, sink, body)  # type: ignore[arg-type]  # a sink in place of a connection
        return sink.data, await reader.read()

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("raw", "request_"),
    [
        (head("GET /a?b=c HTTP/1.1", "Host: x"), Request("GET", "/a", 0)),
        (head("POST / HTTP/1.0", "Content-Length:  12 "), Request("POST", "/", 12)),
        (head("POST / HTTP/1.1", "Content-Length: 12", "content-length: 12"), Request("POST", "/", 12)),
        (head("POST / HTTP/1.1", "Transfer-Encoding: Chunked"), Request("POST", "/", "chunked")),
    ],
)
def test_requests(raw: bytes, request_: Request) -> None:
    """Method, path without the query, and how the body is framed."""
    assert parse_request(raw) == request_


@pytest.mark.parametrize(
    ("raw", "method", "answer"),
    [
        (head("HTTP/1.1 200 OK", "content-length: 3"), "GET", Answer(200, False, 3)),
        (head("HTTP/1.1 200", "Content-Type: Application/JSON; charset=utf-8"), "GET", Answer(200, True, "to the end")),
        (head("HTTP/1.1 200 OK", "transfer-encoding: chunked"), "GET", Answer(200, False, "chunked")),
        (head("HTTP/1.1 200 OK", "content-length: 3"), "HEAD", Answer(200, False, 0)),
        (head("HTTP/1.1 204 No Content"), "POST", Answer(204, False, 0)),
        (head("HTTP/1.1 304 Not Modified", "content-length: 9"), "GET", Answer(304, False, 0)),
        (head("HTTP/1.1 100 Continue"), "POST", Answer(100, False, 0)),
    ],
)
def test_answers(raw: bytes, method: str, answer: Answer) -> None:
    """Status, kind, and where the body ends, for those that have none as well."""
    assert parse_answer(raw, method) == answer
    assert answer.interim == (answer.status == 100)


@pytest.mark.parametrize(
    "raw",
    [
        head("one"),
        head("GET /"),
        head("GET  / HTTP/1.1"),
        head("GET / HTTP/2"),
        head("GET / HTTP/1.1", "no colon"),
        head("GET / HTTP/1.1", "name : value"),
        head("GET / HTTP/1.1", "content-length: -1"),
        head("GET / HTTP/1.1", "content-length: x"),
        head("GET / HTTP/1.1", "content-length: 1", "content-length: 2"),
        head("GET / HTTP/1.1", "content-length: 1", "transfer-encoding: chunked"),
        head("GET / HTTP/1.1", "transfer-encoding: gzip, chunked"),
    ],
)
def test_broken_requests(raw: bytes) -> None:
    """What cannot be followed safely is refused."""
    with pytest.raises(BrokenMessage):
        parse_request(raw)


@pytest.mark.parametrize(
    "raw", [head("HTTP/1.1"), head("HTTP/2 200"), head("HTTP/1.1 2x0 OK"), head("HTTP/1.1 101 Switching Protocols")]
)
def test_broken_answers(raw: bytes) -> None:
    """So are answers without a status, and those that change the protocol."""
    with pytest.raises(BrokenMessage):
        parse_answer(raw, "GET")


def test_length_is_replaced() -> None:
    """A head gets the new length and keeps all else."""
    before = head("HTTP/1.1 200 OK", "Content-Length: 3", "x-a: content-length: 3")
    assert with_length(before, 12) == head("HTTP/1.1 200 OK", "x-a: content-length: 3", "content-length: 12")


def test_a_body_ends_where_its_framing_says() -> None:
    """Each framing passes its own bytes, unchanged, and leaves the next message alone."""
    assert passed(b"abcdef", 4) == (b"abcd", b"ef")
    assert passed(b"abcdef", 0) == (b"", b"abcdef")
    assert passed(b"abcdef", "to the end") == (b"abcdef", b"")
    chunks = b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
    assert passed(chunks + b"GET", "chunked") == (chunks, b"GET")
    trailers = b"1\r\na\r\n0\r\nx: y\r\nz: w\r\n\r\n"
    assert passed(trailers + b"GET", "chunked") == (trailers, b"GET")


@pytest.mark.parametrize(
    ("raw", "body"), [(b"abc", 4), (b"4\r\nabc", "chunked"), (b"0\r\n", "chunked"), (b"", "chunked")]
)
def test_a_body_that_breaks_off(raw: bytes, body: object) -> None:
    """A body that ends before its end is told."""
    with pytest.raises(asyncio.IncompleteReadError):
        passed(raw, body)


@pytest.mark.parametrize("raw", [b"-1\r\n", b"0x5\r\n", b"\r\n", b"1_0\r\n", b"fffffffffffffffff\r\n"])
def test_a_chunk_without_a_size(raw: bytes) -> None:
    """A chunk size is hexadecimal digits, and not too many."""
    with pytest.raises(BrokenMessage):
        passed(raw, "chunked")
