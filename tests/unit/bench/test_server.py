"""What the server's bench makes of what it saw."""

import asyncio

import pytest

from bench.server import Row, back_to_normal, floors, table
from bench.server_load import Seen, closed_loop, open_loop, post
from bench.server_work import sentences


def test_ratios_are_formed_within_a_round() -> None:
    """A round in which the whole machine was slow says as much as any other."""
    rounds = [
        {"ours": Row(200, 0.1), "plain": Row(100, 0.1), "mosec": Row(80, 0.1), "mosec-sorted": Row(160, 0.1)},
        {"ours": Row(20, 0.1), "plain": Row(10, 0.1), "mosec": Row(8, 0.1), "mosec-sorted": Row(16, 0.1)},
    ]
    found = floors(rounds, [250.0, 25.0])
    assert found == {"tight loop": 0.8, "best documented": 2.0, "mosec-sorted": 1.25}


def test_who_is_not_installed_decides_nothing() -> None:
    """The tight loop is always there."""
    assert floors([{"ours": Row(90, 0.1)}], [100.0]) == {"tight loop": 0.9}


def test_the_table_says_who_did_not_come_back() -> None:
    """And who refused nobody."""
    text = table([{"ours": Row(200, 0.1, 190, 50, 0.004, 0.5), "plain": Row(100, 0.1, 20)}], [250.0])
    assert "| ours | 0.80 | 1.00 | 100 | 0.95 | 4.0 | 0.5 |" in text
    assert "| plain | 0.40 | 2.00 | 100 | 0.20 | none refused | not in 1 of 1 rounds |" in text


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
            await open_loop(port, [post("/x", b"{}")], rate=500, seconds=0.2, seed=1),
        ):
            assert {status for _, status, _ in seen.answers} == {0, 200, 429}
            assert seen.good() == sum(1 for _, status, _ in seen.answers if status == 200)
            assert seen.percentile(0.99) < float("inf")
        server.close()
        await server.wait_closed()
        await asyncio.gather(*(task for task in serving if task is not None))

    asyncio.run(scenario())
