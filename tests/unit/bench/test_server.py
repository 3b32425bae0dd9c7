"""What the server's bench makes of what it saw."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.server import rotated
from bench.server_load import Seen, closed_loop, open_loop, post
from bench.server_report import BEGIN, END, Report, write_between
from bench.server_rounds import Ceiling, Row, back_to_normal, cosine
from bench.server_work import sentences


def row(rate: float, **more: Any) -> Row:
    return Row(rate, **more)


def report(*rounds: dict[str, Row], loops: list[float], layers: list[dict[str, float]] | None = None) -> Report:
    return Report(rounds, [Ceiling(rate, 0.004, []) for rate in loops], layers or [])


def test_ratios_are_formed_within_a_round() -> None:
    """A round in which the whole machine was slow says as much as any other."""
    found = report(
        {"ours": row(200), "plain": row(100), "mosec": row(80), "mosec-sorted": row(160)},
        {"ours": row(20), "plain": row(10), "mosec": row(8), "mosec-sorted": row(16)},
        loops=[250.0, 25.0],
    )
    assert {name: ratio.median for name, ratio in found.ratios().items()} == {
        "tight loop": 0.8,
        "best documented": 2.0,
        "mosec-sorted": 1.25,
    }
    assert found.below() == ["tight loop: 0.80 (0.80-0.80), at least 0.85"]


def test_who_is_not_installed_decides_nothing() -> None:
    """The tight loop is always there."""
    assert list(report({"ours": row(90)}, loops=[100.0]).ratios()) == ["tight loop"]


def test_other_answers_are_a_fault() -> None:
    """Of bfloat16 less is asked."""
    found = report({"ours": row(90, cosine=0.998), "ours-bfloat16": row(90, cosine=0.998)}, loops=[100.0])
    assert found.wrong() == ["ours: an answer has cosine 0.99800 to the model alone"]


def test_the_table_says_who_refused_and_who_did_not_come_back() -> None:
    """The layer's CPU in relation to Mosec's."""
    ours = row(
        200, cpu_s=0.005, p99_s=0.1, goodput=0.95, refusals=50, refused_p50_s=0.001, refused_p99_s=0.004, back_s=0.5
    )
    mosec = row(100, p99_s=0.1, goodput=0.2)
    text = report({"ours": ours, "mosec": mosec}, loops=[250.0], layers=[{"ours": 1e-4, "mosec": 4e-4}]).markdown()
    assert "| ours | 0.80 (0.80-0.80) | 0.80 (0.80-0.80) | 100, 64 | 0.95 (0.95-0.95) | 1.0, 4 | 0.5 |" in text
    assert "| 0.5 | 1.00000 | 0.25 (0.25-0.25) |" in text
    assert "| 0.20 (0.20-0.20) | none | not in 1 of 1 | 1.00000 | 1.00 (1.00-1.00) |" in text


def test_the_page_keeps_what_stands_around_the_table(tmp_path: Path) -> None:
    """And a page without markers is refused."""
    page = tmp_path / "page.md"
    page.write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    write_between(page, "new")
    assert page.read_text() == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    page.write_text("a")
    with pytest.raises(ValueError, match="has no"):
        write_between(page, "new")


def test_each_server_has_each_place() -> None:
    """Over as many rounds as there are servers."""
    assert [rotated(["a", "b", "c"], number)[0] for number in range(4)] == ["a", "b", "c", "a"]


def test_cosine_of_what_cannot_be_compared_is_the_least() -> None:
    """Another length, or nothing at all."""
    assert cosine([1.0, 0.0], [2.0, 0.0]) == 1.0
    assert cosine([1.0, 0.0], [0.0, 0.0]) == cosine([1.0], [1.0, 0.0]) == -1.0


def test_normal_is_a_window_of_quick_answers() -> None:
    """Refusals are not quick; None when the phase ended before."""
    slow = [(at / 10, 200, 1.0) for at in range(20)]
    refused = [(2 + at / 10, 429, 0.0) for at in range(20)]
    quick = [(4 + at / 10, 200, 0.1) for at in range(20)]
    back = back_to_normal(Seen([*slow, *refused, *quick]), 0.1)
    assert back is not None
    assert 2.9 < back < 4.0
    assert back_to_normal(Seen(slow + refused), 0.1) is None


def test_sentences_are_seeded_and_of_the_stated_lengths() -> None:
    """Words and two special tokens: 4 to 64, 15 in the mean."""
    texts = sentences(3, 4000)
    assert texts == sentences(3, 4000)
    lengths = [len(text.split()) + 2 for text in texts]
    assert (min(lengths), max(lengths)) == (4, 64)
    assert sum(lengths) / len(lengths) == pytest.approx(15, abs=1)


def test_the_generator_counts_answers_refusals_and_losses() -> None:
    """Against a server that answers, refuses and hangs up in turn."""

    async def scenario() -> None:
        count = 0
        serving: list[asyncio.Task[None] | None] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            serving.append(asyncio.current_task())
            try:
                while await reader.readuntil(b"\r\n\r\n"):
                    await reader.readexactly(2)
                    count += 1
                    if count % 3 == 0:
                        break
                    status = b"200 OK" if count % 3 == 1 else b"429 Too Many Requests"
                    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")
            except asyncio.IncompleteReadError:
                pass
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for seen in (
            await closed_loop(port, [post("/x", b"{}")], lines=2, seconds=0.2),
            await open_loop(port, [post("/x", b"{}")], rates=[(500, 0.1), (200, 0.1)], seed=1),
        ):
            assert {status for _, status, _ in seen.answers} == {0, 200, 429}
            assert 0 < seen.good() <= sum(1 for _, status, _ in seen.answers if status == 200)
            assert seen.percentile(0.99) < float("inf")
        server.close()
        await server.wait_closed()
        await asyncio.gather(*(task for task in serving if task is not None))

    asyncio.run(scenario())
