"""Command line of the load generator. Exit codes: 0 no failures, 1 failures, 2 usage or no reference."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadtest.coverage import Catalogue, bucket_shares
from loadtest.options import Options, OptionsError, mix_from
from loadtest.payloads import Payloads


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    try:
        mix = mix_from(given.mix)
        if given.command == "mix":
            shares = bucket_shares(Payloads(mix, seed=given.seed), Catalogue.parse(given.catalogue))
            print(msgspec.json.encode(shares).decode())
            return 0
        then_mix = mix_from(given.then_mix, option="--then-mix") if given.then_mix else None
        options = Options(
            host=given.host,
            rate=given.rate,
            seconds=given.seconds,
            seed=given.seed,
            model=given.model,
            gaps=given.gaps,
            users=given.users,
            dimension=given.dimension,
            timeout_s=given.timeout,
            mix=mix,
            then_mix=then_mix,
            then_when=given.then_when,
            out=given.out,
            stop_file=given.stop_file,
            reference=given.reference,
        )
    except OptionsError as wrong:
        print("\n".join(wrong.problems), file=sys.stderr)
        return 2
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    # Imported here: locust patches sockets and threads of the whole process.
    from loadtest.run import run

    return run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="canary-loadtest", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="send seeded texts at a constant rate and check every answer")
    run.add_argument("--host", required=True, help="endpoint, http://HOST:PORT")
    run.add_argument("--rate", type=float, required=True, help="requests a second, whatever the answers do")
    run.add_argument("--seconds", type=float, required=True, help="length of the schedule")
    run.add_argument("--model", default="all-MiniLM-L6-v2", help="model name sent (default %(default)s)")
    run.add_argument("--out", type=Path, help="folder for live.json (each second) and stats.json (at the end)")
    run.add_argument("--gaps", choices=("exponential", "fixed"), default="exponential")
    run.add_argument("--users", type=int, default=64, help="most requests at once; more are sent late, never lost")
    run.add_argument("--dimension", type=int, default=384, help="numbers in a vector (default %(default)s)")
    run.add_argument("--timeout", type=float, default=30.0, help="seconds a request may take (default %(default)s)")
    run.add_argument("--reference", help="endpoint whose answers to known texts count as right, http://HOST:PORT")
    run.add_argument("--stop-file", type=Path, help="end the schedule when this file appears")
    run.add_argument("--then-mix", type=Path, help="JSON file with the mix of requests once --then-when exists")
    run.add_argument("--then-when", type=Path, help="draw from --then-mix from the moment this file exists")
    mix = commands.add_parser("mix", help="print the share of requests that each shape bucket takes, as JSON")
    mix.add_argument("--catalogue", default="1,4,8x16,32,64,128", help="batch sizes x lengths (default %(default)s)")
    for command in (run, mix):
        command.add_argument("--seed", type=int, default=1, help="seed of texts and gaps (default %(default)s)")
        command.add_argument("--mix", type=Path, help="JSON file with the mix of requests")
    return parser


if __name__ == "__main__":
    sys.exit(main())
