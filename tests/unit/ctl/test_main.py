import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ctl.__main__ import main
from wire.admin import CommandResult, Refusal


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CANARY_URL", "CANARY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "ann")


def test_status_prints_the_line_first(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """status exits 0 and begins with the line that says it all."""
    assert main(["--url", admin.url, "status"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "stepping  10 %  HOLD not_proven  step 2/4 since 14 s  E 0.61 of 20"


def test_json_prints_the_answer_as_it_is(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--json may stand before or after the command and prints the gateway's own body."""
    for words in (["--json", "status"], ["status", "--json"]):
        assert main(["--url", admin.url, *words]) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "stepping"


def test_explain_prints_headline_facts_and_next(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """explain exits 0 as status does; --json prints the gateway's own body."""
    assert main(["--url", admin.url, "explain"]) == 0
    assert capsys.readouterr().out.startswith("Rolled back from 10 % for lat_p95")
    assert main(["--url", admin.url, "explain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "r7"
    admin.answers["GET", "/v1/explain"] = (401, Refusal(error="a token is needed", reason="no_token"))
    assert main(["--url", admin.url, "explain"]) == 1
    assert "operator.token" in capsys.readouterr().err


def test_refusals_and_rollbacks_point_at_explain(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """That is where the reason stands."""
    assert main(["--url", admin.url, "rollback", "--reason", "x"]) == 0
    assert "`canaryctl explain`" in capsys.readouterr().out
    admin.answers["POST", "/v1/commands/pause"] = (409, Refusal(error="not now", reason="not_now"))
    assert main(["--url", admin.url, "pause", "--reason", "x"]) == 1
    assert "`canaryctl explain` why" in capsys.readouterr().err


def test_commands_send_reason_who_and_token(admin: Any, tmp_path: Path) -> None:
    """Every command posts JSON with reason and caller and the bearer token of the file."""
    (tmp_path / "token").write_text("secret\n")
    for name in ("pause", "resume", "rollback", "promote", "finish"):
        words = [name, "--url", admin.url, "--token-file", str(tmp_path / "token"), "--reason", "because"]
        assert main(words) == 0
        method, path, head, body = admin.requests[-1]
        assert (method, path) == ("POST", f"/v1/commands/{name}")
        assert (head["authorization"], head["content-type"]) == ("Bearer secret", "application/json")
        sent = json.loads(body)
        assert (sent["reason"], sent["who"]) == ("because", f"ann@{socket.gethostname()}")


def test_start_sends_the_plan(admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """start posts the parsed plan document; url and token may come from the environment."""
    (tmp_path / "plan.yaml").write_text("kind: Plan\nsteps: [0, 10]\n")
    (tmp_path / "token").write_text("secret")
    monkeypatch.setenv("CANARY_URL", admin.url)
    monkeypatch.setenv("CANARY_TOKEN_FILE", str(tmp_path / "token"))
    assert main(["start", str(tmp_path / "plan.yaml"), "--reason", "go", "--who", "bob"]) == 0
    _, path, head, body = admin.requests[-1]
    assert path == "/v1/start"
    assert head["authorization"] == "Bearer secret"
    assert json.loads(body) == {"plan": {"kind": "Plan", "steps": [0, 10]}, "reason": "go", "who": "bob"}


def test_history(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """history asks for the newest lines, of one run when told so."""
    assert main(["--url", admin.url, "history", "--limit", "7", "--run-id", "r7"]) == 0
    assert admin.requests[-1][1] == "/v1/history?limit=7&run_id=r7"
    assert "run opened" in capsys.readouterr().out


def test_replay_sends_run_plan_and_time(admin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Needs no token; a time may be written as it is printed, UTC."""
    (tmp_path / "plan.yaml").write_text("kind: Plan\n")
    url = ["--url", admin.url, "replay", "r7"]
    assert main(url) == 0
    assert json.loads(admin.requests[-1][3]) == {"run_id": "r7", "plan": None, "at": None}
    assert "Run r7, 3 windows judged again by its own plan." in capsys.readouterr().out
    assert main([*url, "--plan", str(tmp_path / "plan.yaml"), "--at", "2027-01-15 08:00:00Z"]) == 0
    asked = {"run_id": "r7", "plan": {"kind": "Plan"}, "at": 1_800_000_000.0}
    assert json.loads(admin.requests[-1][3]) == asked
    for same in ("1800000000", "2027-01-15T08:00:00", "2027-01-15 09:00:00+01:00"):
        assert main([*url, "--at", same]) == 0
        assert json.loads(admin.requests[-1][3])["at"] == 1_800_000_000.0


@pytest.mark.parametrize(("same", "code"), [(True, 0), (None, 0), (False, 1)])
def test_a_replay_that_is_not_as_then_exits_1(admin: Any, same: bool | None, code: int) -> None:
    """A script asks by the code; what cannot be said is no difference."""
    _, found = admin.answers["POST", "/v1/replay"]
    admin.answers["POST", "/v1/replay"] = (200, msgspec.structs.replace(found, same=same))
    assert main(["--url", admin.url, "replay", "r7"]) == code
    assert main(["--url", admin.url, "replay", "r7", "--json"]) == code


def test_unacknowledged_rollback_exits_3_and_names_workers(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A rollback that a worker did not acknowledge is not reported as done."""
    result = CommandResult(state="rolled_back", epoch=4, weight=0, detail="", acknowledged=["w0"], missing=["w1", "w2"])
    admin.answers["POST", "/v1/commands/rollback"] = (200, result)
    assert main(["--url", admin.url, "rollback", "--reason", "x"]) == 3
    assert "NOT acknowledged by: w1, w2" in capsys.readouterr().err


@pytest.mark.parametrize("stderr", ["kept", "gone, too"])
@pytest.mark.parametrize("stdout", ["gone", "full disk"])
def test_rollback_keeps_its_code_and_warning_without_a_reader(admin: Any, stdout: str, stderr: str) -> None:
    """Whoever cuts the output off still learns by the exit code that workers are missing, and from stderr which."""
    result = CommandResult(state="rolled_back", epoch=4, weight=0, detail="", acknowledged=["w0"], missing=["w1"])
    admin.answers["POST", "/v1/commands/rollback"] = (200, result)
    command = [sys.executable, "-m", "ctl", "--url", admin.url, "rollback", "--reason", "x"]
    unread, gone = os.pipe()
    os.close(unread)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        out = gone if stdout == "gone" else full
        err = subprocess.PIPE if stderr == "kept" else out
        done = subprocess.run(command, stdout=out, stderr=err, timeout=60)
    finally:
        os.close(gone)
        os.close(full)
    assert done.returncode == 3
    if stderr == "kept":
        said = done.stderr.decode()
        assert "NOT acknowledged by: w1" in said
        assert "Traceback" not in said
        assert "Exception ignored" not in said
        assert ("No space left" in said) == (stdout == "full disk")


def test_watch_ends_with_its_reader(admin: Any) -> None:
    """Watching into a pipe whose reader has left ends by itself."""
    unread, gone = os.pipe()
    os.close(unread)
    try:
        command = [sys.executable, "-m", "ctl", "--url", admin.url, "status", "--watch", "--interval", "3600"]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(gone)
    assert (done.returncode, done.stderr) == (0, b"")


def test_refusal_exits_1_with_every_problem(admin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the gateway refuses is printed with each problem; with --json its body, too."""
    refusal = Refusal(error="plan refused", reason="bad_plan", problems=["steps: [] is not allowed", "slo: missing"])
    admin.answers["POST", "/v1/start"] = (422, refusal)
    (tmp_path / "plan.yaml").write_text("kind: Plan\n")
    assert main(["--url", admin.url, "--json", "start", str(tmp_path / "plan.yaml"), "--reason", "go"]) == 1
    seen = capsys.readouterr()
    assert "  - steps: [] is not allowed\n  - slo: missing" in seen.err
    assert msgspec.json.decode(seen.out, type=Refusal) == refusal


def test_missing_token_says_where_it_is(admin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A command without a token is told how to give one."""
    admin.answers["POST", "/v1/commands/pause"] = (401, Refusal(error="a token is needed", reason="unauthorized"))
    assert main(["--url", admin.url, "pause", "--reason", "x"]) == 1
    assert "operator.token" in capsys.readouterr().err


def test_nothing_there_exits_4(capsys: pytest.CaptureFixture[str]) -> None:
    """A closed port is unreachable, and the text says what to check."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert main(["--url", url, "status"]) == 4
    assert "admin port (8081)" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [(404, b"nothing here"), (200, b"<html></html>")])
def test_something_else_there_exits_4(admin: Any, answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What answers but is no admin port is named as such."""
    admin.answers["GET", "/v1/status"] = answer
    assert main(["--url", admin.url, "status"]) == 4
    assert "not as a gateway's admin port" in capsys.readouterr().err


def test_override_needs_confirmation(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """promote --override without a terminal needs --confirm; with it, it is sent."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    words = ["--url", admin.url, "promote", "--override", "--reason", "x"]
    assert main(words) == 2
    assert admin.requests == []
    assert main([*words, "--confirm", "demo"]) == 0
    sent = json.loads(admin.requests[-1][3])
    assert (sent["override"], sent["confirm"]) == (True, "demo")


def test_override_is_typed_or_not_sent(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the name is asked for; Ctrl-D or an empty line sends nothing."""
    answers: list[str | None] = [None, " ", "demo"]

    def typed(_: str) -> str:
        answer = answers.pop(0)
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", typed)
    words = ["--url", admin.url, "promote", "--override", "--reason", "x"]
    assert [main(words), main(words)] == [2, 2]
    assert admin.requests == []
    assert main(words) == 0
    assert json.loads(admin.requests[-1][3])["confirm"] == "demo"


def test_rollback_needs_no_stdin(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands work where standard input was closed."""
    monkeypatch.setattr("sys.stdin", None)
    assert main(["--url", admin.url, "rollback", "--reason", "x"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "nowhere", "status"],
        ["start", "/absent.yaml", "--reason", "x"],
        ["status", "--token-file", "/absent"],
        ["promote", "--confirm", "demo", "--reason", "x"],
    ],
)
def test_wrong_usage_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be sent is said in one sentence that names the option."""
    assert main(words) == 2
    seen = capsys.readouterr().err
    assert seen.startswith("canaryctl: ")
    assert "Traceback" not in seen


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["pause"],
        ["pause", "--reason", "  "],
        ["status", "--interval", "0"],
        ["history", "--limit", "0"],
        ["start"],
        ["replay"],
        ["replay", "r7", "--at", "noon"],
        ["replay", "r7", "--at", "nan"],
    ],
)
def test_grammar_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command line outside the grammar ends with the usage."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: canaryctl" in capsys.readouterr().err
