"""Command line: parse, ask, print, exit."""

import sys
from collections.abc import Callable, Sequence

from ctl.arguments import parser
from ctl.client import AdminClient, Refused, Unreachable
from ctl.commands import Exit, confirmed, execute, refusal_text
from ctl.config import UsageError, environment, target
from ctl.watch import watch


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    try:
        aim = target(given.url, given.token_file, given.who, environment())
        given.confirm = confirmed(given, _ask())
        with AdminClient(aim) as client:
            if given.command == "status" and given.watch:
                watch(client, sys.stdout, interval_s=given.interval, raw=given.json)
            return execute(given, aim.who, client, sys.stdout)
    except UsageError as wrong:
        print(f"canaryctl: {wrong}", file=sys.stderr)
        return Exit.USAGE
    except Unreachable as away:
        print(f"canaryctl: {away}", file=sys.stderr)
        return Exit.UNREACHABLE
    except Refused as refused:
        if given.json:
            print(refused.raw.decode("utf-8", "replace"))
        print(refusal_text(given.command, refused), file=sys.stderr)
        return Exit.REFUSED
    except KeyboardInterrupt:
        return Exit.DONE if given.command == "status" else 130
    except BrokenPipeError:
        # The reader of a pipe (head, less) left; there is nobody to tell.
        sys.stderr.close()
        return Exit.DONE


def _ask() -> Callable[[str], str] | None:
    return input if sys.stdin.isatty() else None


if __name__ == "__main__":
    sys.exit(main())
