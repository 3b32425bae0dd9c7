"""A window of profiling on a real server, while it serves."""

import json
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from integration.server.running import tiny_model


def test_a_window_records_what_is_served_meanwhile(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """Without a failed request; a second window at the same time is refused, and so is nonsense."""
    folder = tmp_path / "profiles"
    folder.mkdir(mode=0o700)
    with start_server(
        model=tiny_model(tmp_path), catalogue={"batch": [1], "length": [8]}, profiler={"folder": str(folder)}
    ) as server:
        server.admin.timeout = 120
        assert server.wait_state("ready", "failed")["state"] == "ready"
        answers: list[Any] = []
        recording = threading.Thread(target=lambda: answers.append(server.admin.post("/profile?seconds=2")))
        recording.start()
        statuses = set()
        while recording.is_alive():
            statuses.add(server.embed("a").status_code)
            if server.admin.post("/profile?seconds=1").status_code == 409:
                break
        while recording.is_alive():
            statuses.add(server.embed("a").status_code)
        recording.join()
        assert statuses == {200}
        (answer,) = answers
        assert answer.status_code == 200, answer.text
        body = answer.json()
        file = Path(body["file"])
        assert file.parent == folder
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert body["size"] == file.stat().st_size
        assert body["batches"] > 0
        assert json.loads(file.read_text())["traceEvents"]
        for given in ("", "0", "61", "-1", "1.5", "x", "1" * 5000):
            refused = server.admin.post("/profile", params={"seconds": given})
            assert refused.status_code == 400
            assert "allowed is a whole number from 1 to 60" in refused.json()["error"]
        assert server.admin.post("/profile?seconds=1", headers={"origin": "http://evil.example"}).status_code == 403
        assert server.admin.post("/profile?seconds=1", headers={"host": "evil.example"}).status_code == 421
        assert server.admin.get("/profile?seconds=1").status_code == 405
        assert server.metric('canary_server_compiles_total{phase="serving"}') == 0
        assert server.end() == 0


def test_without_a_profiler_section_there_is_none(cpu_server: Any) -> None:
    """The refusal names the setting."""
    answer = cpu_server.admin.post("/profile?seconds=1")
    assert answer.status_code == 404
    assert "profiler: {folder: ...}" in answer.json()["error"]


@pytest.mark.emulator
def test_a_sealed_server_compiles_nothing_for_it(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """Strict on the emulator: a window is no new shape and no new program."""
    folder = tmp_path / "profiles"
    folder.mkdir(mode=0o700)
    with start_server(
        emulator=True,
        model=tiny_model(tmp_path),
        device="tpu-emulator",
        catalogue={"batch": [1], "length": [8]},
        profiler={"folder": str(folder)},
    ) as server:
        server.admin.timeout = 120
        assert server.wait_state("ready", "failed")["state"] == "ready"
        answers: list[Any] = []
        recording = threading.Thread(target=lambda: answers.append(server.admin.post("/profile?seconds=1")))
        recording.start()
        while recording.is_alive():
            assert server.embed("a").status_code == 200
        recording.join()
        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].json()["batches"] > 0
        assert server.metric('canary_server_compiles_total{phase="serving"}') == 0
