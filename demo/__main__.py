"""``canary-demo``: exit codes 0 the expected outcome and every client served right, 1 not, 2 usage, 130 interrupted."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from demo.failures import DemoFailed
from demo.options import Options, parse
from demo.play import Play
from demo.result import Result, report
from demo.view import view_for
from demo.weights import find

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    path = options.results / "result.json"
    try:
        _clear(options)
        result = asyncio.run(_perform(options))
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    except (DemoFailed, OSError) as failed:
        print(f"demo: {failed}", file=sys.stderr)
        print(f"demo: logs are in {options.results / 'logs'}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("demo: interrupted; everything it started was stopped", file=sys.stderr)
        return _INTERRUPTED
    print(f"\n{report(result)}\n\nresult: {path}")
    return 0 if result.passed else 1


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
