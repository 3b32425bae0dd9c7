"""The grammar of the command line."""

import argparse
from datetime import UTC, datetime
from typing import Final

DESCRIPTION: Final = """\
Start, watch and steer the rollout of a canary gateway.

exit codes: 0 done   1 refused by the gateway, or a replay that is not as then   2 wrong usage
            3 rolled back, but some workers did not acknowledge (named)   4 gateway unreachable
environment: CANARY_URL (default http://127.0.0.1:8081), CANARY_TOKEN_FILE"""

_COMMANDS: Final = {
    "pause": "keep the present weight and judge no further until resume (rollback still works)",
    "resume": "go on judging after pause",
    "rollback": "all traffic to the baseline, now",
    "promote": "pass a manual gate whose evidence is complete; --override passes without evidence",
    "finish": "make the candidate the new baseline after a completed run",
}


def parser() -> argparse.ArgumentParser:
    """Common options may stand before or after the command."""
    root = argparse.ArgumentParser(
        prog="canaryctl", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _common(root, default=None)
    shared = argparse.ArgumentParser(add_help=False)
    _common(shared, default=argparse.SUPPRESS)
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    start = commands.add_parser("start", parents=[shared], help="open a run with a plan")
    start.add_argument("plan", metavar="PLAN", help="plan file (YAML)")
    _reason(start)
    status = commands.add_parser("status", parents=[shared], help="state, verdict, arms, metrics")
    status.add_argument("--watch", action="store_true", help="repeat until interrupted")
    status.add_argument("--interval", type=_interval, default=2.0, help="seconds between looks (default %(default)s)")
    commands.add_parser("explain", parents=[shared], help="why it stands where it stands, and what to do next")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(name, parents=[shared], help=text)
        _reason(command)
        if name == "promote":
            command.add_argument("--override", action="store_true", help="advance without evidence; is journalled")
            command.add_argument("--confirm", default="", metavar="ROLLOUT", help="the rollout's name, for --override")
    history = commands.add_parser("history", parents=[shared], help="the journal, oldest first")
    history.add_argument("--limit", type=_limit, default=50, help="newest lines to show (default %(default)s)")
    history.add_argument("--run-id", default="", help="lines of this run only")
    replay = commands.add_parser("replay", parents=[shared], help="judge the recorded evidence of a run again")
    replay.add_argument("run_id", metavar="RUN", help="the run; `canaryctl history` names them")
    replay.add_argument("--plan", dest="plan_file", default="", metavar="FILE", help="judge by this plan instead")
    replay.add_argument("--at", type=_moment, default=None, metavar="TIME", help="as if it were this time (UTC)")
    return root


def _common(target: argparse.ArgumentParser, *, default: object) -> None:
    target.add_argument("--url", default=default, help="admin address of the gateway")
    target.add_argument("--token-file", default=default, help="file with the operator token, for commands that change")
    target.add_argument("--who", default=default, type=_sendable, help="who asks (default USER@HOST)")
    flag = False if default is None else default
    target.add_argument("--json", action="store_true", default=flag, help="print the gateway's answer as it is")


def _reason(command: argparse.ArgumentParser) -> None:
    command.add_argument("--reason", required=True, type=_reason_text, help="why, for the journal")


def _reason_text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must say why; it goes into the journal")
    return _sendable(text)


def _sendable(text: str) -> str:
    """Bytes of another encoding than the terminal's are replaced: a rollback must not fail for an umlaut."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0.2 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} must lie between 0.2 and 3600 seconds")
    return seconds


def _moment(text: str) -> float:
    """A time as it is printed (UTC), or seconds since the Unix epoch."""
    if text.isdecimal():
        return float(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; as 2026-03-01T12:00:00Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _limit(text: str) -> int:
    lines = int(text)
    if not 1 <= lines <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} must lie between 1 and 10000")
    return lines
