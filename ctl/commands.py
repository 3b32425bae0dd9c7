"""What each command asks of the gateway, says, and exits with."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from ctl import explain_view, history_view, replay_view, status_view
from ctl.client import AdminClient, Refused
from ctl.config import UsageError
from ctl.layout import paragraph, percent
from ctl.plan_file import read_plan
from wire.admin import CommandRequest, CommandResult, ReplayRequest, StartRequest


class Exit(IntEnum):
    """Exit codes; scripts rely on them."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    NOT_ACKNOWLEDGED = 3
    UNREACHABLE = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """The exit code, what belongs on stdout, and what on stderr."""

    code: Exit
    text: str = ""
    warning: str = ""


def execute(given: argparse.Namespace, who: str, client: AdminClient) -> Reply:
    """Run one command. Raises UsageError, Unreachable and Refused."""
    match given.command:
        case "status":
            status, raw = client.status()
            return Reply(Exit.DONE, _shown(given, raw, status_view.full(status)))
        case "explain":
            explanation, raw = client.explanation()
            return Reply(Exit.DONE, _shown(given, raw, explain_view.full(explanation)))
        case "history":
            history, raw = client.history(limit=given.limit, run_id=given.run_id)
            return Reply(Exit.DONE, _shown(given, raw, history_view.journal(history.lines)))
        case "replay":
            other = read_plan(Path(given.plan_file)) if given.plan_file else None
            replay, raw = client.replay(ReplayRequest(run_id=given.run_id, plan=other, at=given.at))
            differs = replay.same is False
            return Reply(Exit.REFUSED if differs else Exit.DONE, _shown(given, raw, replay_view.full(replay)))
        case "start":
            plan = read_plan(Path(given.plan))
            result, raw = client.start(StartRequest(plan=plan, reason=given.reason, who=who))
        case name:
            result, raw = client.command(name, _request(given, who))
    text = _shown(given, raw, result_text(given.command, result))
    if given.command == "rollback" and result.missing:
        return Reply(Exit.NOT_ACKNOWLEDGED, text, _unacknowledged(result))
    return Reply(Exit.DONE, text)


def result_text(command: str, result: CommandResult) -> str:
    """One line on what is true now, the detail, and who acknowledged."""
    lines = [f"{command} done: {result.state}  {percent(result.weight)}  epoch {result.epoch}"]
    if result.detail:
        lines += paragraph("", result.detail, indent=2)
    if result.time_to_zero_ms is not None and not result.missing:
        workers = ", ".join(result.acknowledged) or "no worker was running"
        lines += paragraph("", f"weight 0 everywhere after {result.time_to_zero_ms:.0f} ms ({workers})", indent=2)
    if command == "rollback":
        lines += paragraph("", "`canaryctl explain` says what is known of it, and how to begin again", indent=2)
    return "\n".join(lines)


def refusal_text(command: str, refused: Refused) -> str:
    """What was refused, every problem, and what to try next."""
    refusal = refused.refusal
    lines = [f"{command} refused ({refusal.reason}): {refusal.error}"]
    lines += [f"  - {problem}" for problem in refusal.problems]
    if refused.status in (401, 403):
        lines.append(
            "  Give the operator token: --token-file STATE_DIR/operator.token (or CANARY_TOKEN_FILE); the gateway"
            " prints the path when it starts."
        )
    elif command != "replay" and not refusal.problems:
        lines.append(
            "  Nothing was changed. `canaryctl status` shows the present state, `canaryctl explain` why it is so."
        )
    return "\n".join(lines)


def confirmed(given: argparse.Namespace, ask: Callable[[str], str] | None) -> str:
    """The confirmation of ``promote --override``: from --confirm, else typed. Raises UsageError.

    ``ask`` is None where nobody can be asked.
    """
    if given.command != "promote" or not given.override:
        if getattr(given, "confirm", ""):
            raise UsageError("--confirm: belongs to promote --override alone")
        return ""
    if given.confirm:
        return str(given.confirm)
    if ask is None:
        raise UsageError("--override: needs --confirm ROLLOUT when there is no terminal to ask on")
    try:
        typed = ask("This advances WITHOUT evidence. Type the rollout's name to confirm: ").strip()
    except EOFError:  # Ctrl-D
        typed = ""
    if not typed:
        raise UsageError("--override: not confirmed; nothing was sent")
    return typed


def _request(given: argparse.Namespace, who: str) -> CommandRequest:
    override = bool(getattr(given, "override", False))
    return CommandRequest(reason=given.reason, who=who, override=override, confirm=getattr(given, "confirm", ""))


def _unacknowledged(result: CommandResult) -> str:
    return (
        f"rolled back, but NOT acknowledged by: {', '.join(result.missing)}\n"
        "  These workers may still send traffic to the candidate. Stop them (their pids: `canaryctl status`),"
        " or take the candidate down."
    )


def _shown(given: argparse.Namespace, raw: bytes, text: str) -> str:
    return raw.decode("utf-8", "replace") if given.json else text
