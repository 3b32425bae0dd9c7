"""``canary-demo``: exit codes 0 the expected outcome and every client served right, 1 not, 2 usage, 130 interrupted."""

import asyncio
import shutil
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
from demo.stop import Interrupted, Stop
from demo.view import view_for
from demo.weights import find, of_folder

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Plays one scenario, or all of them; one that fails or ends otherwise than expected does not stop the others."""
    plays = parse(argv)
    results: dict[str, Result | None] = {}
    try:
        with Stop() as stop:
            # All at once: of a series that is broken off no older result is left to be mistaken for its own.
            for options in plays:
                _clear(options)
            for options in plays:
                results[options.scenario.name] = _played(options, stop)
    except OSError as unwritable:
        print(f"demo: the results cannot be written: {unwritable}", file=sys.stderr)
        return 1
    except Interrupted:
        print("demo: interrupted; everything it started was stopped", file=sys.stderr)
        return _INTERRUPTED
    finally:
        if len(plays) > 1 and results:
            print("\n" + "\n".join(summary.table(results)), flush=True)
    passed = sum(result is not None and result.passed for result in results.values())
    if len(plays) > 1:
        print(f"\n{passed} of {len(plays)} scenarios ended as expected")
    return 0 if passed == len(plays) else 1


def _played(options: Options, stop: Stop) -> Result | None:
    """The result of one scenario, reported and written; None when it could not be played to its end.

    Raises Interrupted, also when the signal came while everything was being stopped, and OSError.
    """
    path = options.results / "result.json"
    try:
        stop.check()
        result = asyncio.run(_perform(options, stop))
    except asyncio.CancelledError:
        raise Interrupted from None
    except (DemoFailed, OSError) as failed:
        stop.check()
        print(f"demo: {options.scenario.name}: {failed}", file=sys.stderr)
        print(f"demo: logs are in {options.results / 'logs'}", file=sys.stderr)
        return None
    stop.check()
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    print(f"\n{report(result)}\n\nresult: {path}", flush=True)
    return result


async def _perform(options: Options, stop: Stop) -> Result:
    weights = find() if options.weights is None else of_folder(options.weights)
    with (
        tempfile.TemporaryDirectory(prefix="canary-demo-", ignore_cleanup_errors=True) as work,
        view_for(sys.stdout) as view,
    ):
        play = Play(options, weights, view, work=Path(work))
        stop.cancels(asyncio.current_task())
        try:
            return await play.run()
        finally:
            # Synchronous on purpose: a second Ctrl-C cannot interrupt it.
            stop.cancels(None)
            play.close()


def _clear(options: Options) -> None:
    """An old result must not be taken for this run's."""
    for name in ("logs", "load"):
        shutil.rmtree(options.results / name, ignore_errors=True)
    (options.results / "result.json").unlink(missing_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
