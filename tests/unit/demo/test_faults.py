import array
from typing import Any

import msgspec
import pytest

from demo.faults import Crash, Flap, Mode, Pass, Slow, Wrong, is_down, parse, rotate_rows
from wire.openai import Embedding, EmbeddingResponse, Usage, encode_base64


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("pass", Pass()),
        ("crash", Crash()),
        ("slow 250", Slow(250)),
        ("wrong", Wrong()),
        ("flap 400 2000", Flap(400, 2000)),
    ],
)
def test_a_mode_and_its_line(line: str, mode: Mode) -> None:
    """Each line gives its mode, and the mode gives the line again, whatever the spaces were."""
    assert parse(line) == mode
    assert parse(f"  {line.replace(' ', '   ')} \n") == mode
    assert str(mode) == line


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("explode", "mode: 'explode' is not allowed; one of pass, crash, slow MS, wrong, flap DOWN PERIOD"),
        ("", "mode: '' is not allowed"),
        ("pass 3", "mode: 'pass 3' is not allowed"),
        ("slow", "mode: 'slow' is not allowed"),
        ("slow fast", "slow MS: 'fast' is not allowed; a whole number"),
        ("slow -5", "slow MS: '-5' is not allowed; a whole number"),
        ("slow 0", "slow MS: 0 is not allowed; milliseconds from 1 to 60000"),
        ("slow 60001", "slow MS: 60001 is not allowed; milliseconds from 1 to 60000"),
        ("flap 10", "mode: 'flap 10' is not allowed"),
        ("flap 30 20", "flap DOWN: 30 is not allowed; milliseconds from 1 to 20"),
        ("flap 1.5 20", "flap DOWN: '1.5' is not allowed"),
        ("flap 1 600001", "flap PERIOD: 600001 is not allowed; milliseconds from 1 to 600000"),
    ],
)
def test_a_line_that_is_no_mode(line: str, problem: str) -> None:
    """Anything else is refused in one line that names the value and what is allowed."""
    with pytest.raises(ValueError) as wrong:
        parse(line)
    assert str(wrong.value).startswith(problem)
    assert "\n" not in str(wrong.value)


def test_a_long_line_is_not_repeated() -> None:
    """The refusal of a long line stays short."""
    with pytest.raises(ValueError) as wrong:
        parse("x" * 10_000)
    assert len(str(wrong.value)) < 200


def test_every_period_begins_with_the_fault() -> None:
    """From the switch on the first part of each period is down, the rest is not."""
    flap = Flap(250, 1000)
    assert [is_down(flap, at) for at in (0.0, 0.249, 0.25, 0.999, 1.0, 1.125, 1.5, 7.0625, 7.5)] == [
        True, True, False, False, True, True, False, True, False,
    ]  # fmt: skip
    assert all(is_down(Flap(10, 10), at / 7) for at in range(50))


def body(*embeddings: Any) -> bytes:
    data = [Embedding(index=index, embedding=embedding) for index, embedding in enumerate(embeddings)]
    return msgspec.json.encode(EmbeddingResponse(data=data, model="m", usage=Usage(3, 3)))


def rows(raw: bytes | None) -> list[tuple[int, Any]]:
    assert raw is not None
    return [(row.index, row.embedding) for row in msgspec.json.decode(raw, type=EmbeddingResponse).data]


def test_vectors_move_up_by_one_row() -> None:
    """Row i carries the vector of row i + 1, the last one that of the first; the indices stay in order."""
    vectors = [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]
    assert rows(rotate_rows(body(*vectors))) == [(0, [1.0, 0.0]), (1, [0.0, 1.0]), (2, [0.6, 0.8])]
    one, other = (encode_base64(array.array("f", vector).tobytes()) for vector in vectors[:2])
    assert rows(rotate_rows(body(one, other))) == [(0, other), (1, one)]


def test_everything_but_the_vectors_stays() -> None:
    """Numbers are kept as they were written, and fields that are none of ours stay in place."""
    raw = b'{"x":1.50,"data":[{"embedding":[1e-1,2.0],"index":0,"y":"\\u00e9"},{"index":1,"embedding":[3]}],"z":null}'
    assert rotate_rows(raw) == (
        b'{"x":1.50,"data":[{"embedding":[3],"index":0,"y":"\\u00e9"},{"index":1,"embedding":[1e-1,2.0]}],"z":null}'
    )


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'{"data":3}', b'{"data":[]}', b'{"data":[{"index":0},{"index":1}]}', body([1.0, 0.0])],
)
def test_nothing_to_rotate(raw: bytes) -> None:
    """One row, no rows and other bodies are left alone."""
    assert rotate_rows(raw) is None
