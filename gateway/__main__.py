"""``canary-gateway --config FILE``: the control process and its data workers. ``calibrate``: neither."""

import argparse
import sys
from pathlib import Path

from gateway import calibrate
from gateway.main import run


def main() -> None:
    """Parses the command line and runs until a signal, or calibrates a plan and ends."""
    if sys.argv[1:2] == ["calibrate"]:
        sys.exit(calibrate.run(sys.argv[2:]))
    parser = argparse.ArgumentParser(
        prog="canary-gateway",
        description="Split, compare, decide: a canary gateway. `canary-gateway calibrate --help`: before a run.",
    )
    parser.add_argument("--config", type=Path, required=True, help="YAML configuration, see docs/operating.md")
    arguments = parser.parse_args()
    sys.exit(run(arguments.config))


if __name__ == "__main__":
    main()
