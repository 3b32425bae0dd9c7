import asyncio
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import cast, play
from demo.failures import DemoFailed
from demo.options import Options
from demo.play import Play
from demo.scenarios import SCENARIOS
from demo.view import LineView
from demo.weights import Weights


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Play]:
    (tmp_path / "work").mkdir()
    options = Options(scenario=SCENARIOS["good"], cache_dir=tmp_path / "cache", results=tmp_path / "results")
    one = Play(options, Weights("m", tmp_path, "0" * 64), LineView(io.StringIO()), work=tmp_path / "work")
    yield one
    one.close()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program that the demo starts sleeps instead, and is deaf to SIGTERM."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    monkeypatch.setattr(play, "_GRACE_S", 0.0)
    monkeypatch.setattr(cast, "python", lambda *_: [sys.executable, "-c", code])


def test_making_a_play_does_nothing(tmp_path: Path, made: Play) -> None:
    """A play that has not begun has left nothing anywhere."""
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


@pytest.mark.usefixtures("endless")
def test_waiting_for_the_mix_can_be_interrupted(made: Play) -> None:
    """While the load generator works out its mix, Ctrl-C is heard."""

    async def interrupted() -> None:
        task = asyncio.create_task(made._bucket_shares())
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())


@pytest.mark.usefixtures("endless")
def test_endless_mix_ends_the_demo(made: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load generator that never tells its mix is a reason, not a traceback."""
    monkeypatch.setattr(play, "_START_LIMIT_S", 0.1)
    with pytest.raises(DemoFailed, match="for mix to end"):
        asyncio.run(made._bucket_shares())


@pytest.mark.usefixtures("endless")
def test_waiting_for_the_load_can_be_interrupted(made: Play) -> None:
    """While the load generator takes its time to end, Ctrl-C is heard."""

    async def interrupted() -> None:
        made._crew.start("load", cast.python("loadtest"))
        task = asyncio.create_task(made._stop_load())
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())


def test_mix_is_told_by_bucket(made: Play) -> None:
    """The shares of the buckets come from the load generator itself and add up to one."""
    shares = asyncio.run(made._bucket_shares())
    assert sum(shares.values()) == pytest.approx(1.0)
    assert "1x16" in shares
