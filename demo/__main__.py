"""``canary-demo``: exit codes 0 the expected outcome and every client served right, 1 not, 2 usage, 130 interrupted."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from demo import summary
from demo.failures import DemoFailed
from demo.options import Options, parse
from demo.play import Play
from demo.result import Result, report
from demo.view import view_for
from demo.weights import find

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Plays one scenario, or all of them; one that fails or ends otherwise than expected does not stop the others."""
    plays = parse(argv)
    results: list[Result] = []
    try:
        # All at once: of a series that is broken off no older result is left to be mistaken for its own.
        for options in plays:
            _clear(options)
        for options in plays:
            result = _played(options)
            if result is not None:
                results.append(result)
    except OSError as unwritable:
        return _failed(plays[0], unwritable)
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("demo: interrupted; everything it started was stopped", file=sys.stderr)
        return _INTERRUPTED
    if len(plays) > 1:
        print("\n" + "\n".join(summary.table(results)))
        print(f"\n{sum(result.passed for result in results)} of {len(plays)} scenarios ended as expected")
    return 0 if len(results) == len(plays) and all(result.passed for result in results) else 1


def _played(options: Options) -> Result | None:
    """The result of one scenario, reported and written; None when it could not be played to its end."""
    path = options.results / "result.json"
    try:
        result = asyncio.run(_perform(options))
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    except (DemoFailed, OSError) as failed:
        _failed(options, failed)
        return None
    print(f"\n{report(result)}\n\nresult: {path}", flush=True)
    return result


def _failed(options: Options, reason: Exception) -> int:
    print(f"demo: {options.scenario.name}: {reason}", file=sys.stderr)
    print(f"demo: logs are in {options.results / 'logs'}", file=sys.stderr)
    return 1


async def _perform(options: Options) -> Result:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    weights = find()
    with (
        tempfile.TemporaryDirectory(prefix="canary-demo-", ignore_cleanup_errors=True) as work,
        view_for(sys.stdout) as view,
    ):
        play = Play(options, weights, view, work=Path(work))
        try:
            return await play.run()
        finally:
            # Synchronous on purpose: a second Ctrl-C cannot interrupt it.
            play.close()


def _clear(options: Options) -> None:
    """An old result must not be taken for this run's."""
    for name in ("logs", "load"):
        shutil.rmtree(options.results / name, ignore_errors=True)
    (options.results / "result.json").unlink(missing_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
