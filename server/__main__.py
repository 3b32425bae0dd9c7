"""Command ``canary-server``: checks what it can before it imports anything heavy, then serves. ``plan``: does not."""

import argparse
import signal
import sys
from pathlib import Path
from typing import get_args

from server import plan
from server.adapters.worker.hardware import find_tpu
from server.config import ConfigRefused, emulator_allowed, load, prepare_cache_dir
from server.core.devices import refuse_device
from server.core.types import DeviceKind


def main(arguments: list[str] | None = None) -> int:
    """0: drained after a signal, or accepted; 1: failed; 2: refused before any port opened. ``plan`` has its own."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["plan"]:
        return plan.run(words[1:])
    parser = argparse.ArgumentParser(
        prog="canary-server",
        description="Serves one model in fixed, warmed shapes. `canary-server plan --help`: price a catalogue first.",
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=("serve", "smoke"),
        default="serve",
        help="serve (the default); or smoke: try the model on the device and write the acceptance sheet",
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="YAML, kind: Server")
    parser.add_argument("--device", choices=get_args(DeviceKind), help="in place of the file's device")
    parser.add_argument("--out", type=Path, default=Path("acceptance"), metavar="FOLDER", help="where smoke writes")
    given = parser.parse_args(words)
    try:
        settings = load(given.config, given.device)
        refusal = refuse_device(settings.device, find_tpu(), emulator_allowed=emulator_allowed())
        if refusal is not None:
            raise ConfigRefused([refusal])
        prepare_cache_dir(settings.cache_dir)
    except ConfigRefused as refused:
        for problem in refused.problems:
            print(f"canary-server: {problem}", file=sys.stderr)
        return 2
    if given.command == "smoke":
        from server.smoke import run as smoke

        return smoke(settings, given.out, emulator_allowed=emulator_allowed())
    signal.signal(signal.SIGTERM, _leave)
    # Web framework and event loop are imported after the checks: a refusal takes a moment.
    from server.main import run

    return run(settings, emulator_allowed=emulator_allowed())


def _leave(number: int, frame: object) -> None:
    """Before the server has its own handlers; without any, the first process of a container does not end."""
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
