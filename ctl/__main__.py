"""Command line: parse, ask, print, exit."""

import argparse
import sys
from collections.abc import Callable, Sequence

from ctl.arguments import parser
from ctl.client import AdminClient, Refused, Unreachable
from ctl.commands import Exit, Reply, confirmed, execute, refusal_text
from ctl.config import UsageError, environment, target
from ctl.printing import say
from ctl.watch import watch

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    try:
        reply = _perform(given)
    except KeyboardInterrupt:
        return Exit.DONE if given.command in ("status", "explain") else _INTERRUPTED
    # What was done is done: no reader that has left takes away the code, and the warning does not wait for one.
    if reply.warning:
        say(reply.warning, sys.stderr)
    if reply.text:
        say(reply.text, sys.stdout)
    return reply.code


def _perform(given: argparse.Namespace) -> Reply:
    try:
        aim = target(given.url, given.token_file, given.who, environment())
        given.confirm = confirmed(given, _ask())
        with AdminClient(aim) as client:
            if given.command == "status" and given.watch:
                watch(client, sys.stdout, interval_s=given.interval, raw=given.json)
                return Reply(Exit.DONE)
            return execute(given, aim.who, client)
    except UsageError as wrong:
        return Reply(Exit.USAGE, warning=f"canaryctl: {wrong}")
    except Unreachable as away:
        return Reply(Exit.UNREACHABLE, warning=f"canaryctl: {away}")
    except Refused as refused:
        raw = refused.raw.decode("utf-8", "replace") if given.json else ""
        return Reply(Exit.REFUSED, raw, refusal_text(given.command, refused))


def _ask() -> Callable[[str], str] | None:
    # There is no stdin at all where it was closed before the start.
    return input if sys.stdin is not None and sys.stdin.isatty() else None


if __name__ == "__main__":
    sys.exit(main())
