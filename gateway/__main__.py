"""``canary-gateway --config FILE``: the control process and its data workers."""

import argparse
import sys
from pathlib import Path

from gateway.main import run


def main() -> None:
    """Parses the command line and runs until a signal."""
    parser = argparse.ArgumentParser(prog="canary-gateway", description="Split, compare, decide: a canary gateway.")
    parser.add_argument("--config", type=Path, required=True, help="YAML configuration, see docs/operating.md")
    arguments = parser.parse_args()
    sys.exit(run(arguments.config))


if __name__ == "__main__":
    main()
