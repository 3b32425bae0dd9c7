"""What breaks around a server: its worker's process, memory, disk and files."""

import os
import resource
import signal
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.server.running import RunningServer, tiny_model
from safetensors.numpy import load_file, save_file

Start = Callable[..., Any]


def worker_pid(server: RunningServer) -> int:
    """The one child process."""
    (pid,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return int(pid)


def test_a_stopped_worker_is_stuck_and_goes_on_when_it_is_woken(start_server: Start, tmp_path: Path) -> None:
    """Not live, and who waited is told why; then the batch ends and all is as before."""
    with start_server(model=tiny_model(tmp_path), stuck={"floor_s": 5}) as server:
        server.wait_state("ready")
        pid = worker_pid(server)
        os.kill(pid, signal.SIGSTOP)
        answer = server.embed("a")
        assert answer.status_code == 503
        assert "on the device for" in answer.json()["error"]["message"]
        assert server.wait_state("stuck")["detail"] in answer.json()["error"]["message"]
        for path in ("/livez", "/readyz", "/startupz"):
            assert server.admin.get(path).status_code == 503
        os.kill(pid, signal.SIGCONT)
        server.wait_state("ready")
        assert server.embed("a").status_code == 200
        assert worker_pid(server) == pid
        assert server.end() == 0


def test_a_stuck_server_leaves_when_it_is_asked(start_server: Start, tmp_path: Path) -> None:
    """A stopped worker holds nobody up; the exit code tells that it was no clean end."""
    with start_server(
        model=tiny_model(tmp_path), stuck={"floor_s": 5}, drain={"delay_s": 300, "limit_s": 300}
    ) as server:
        server.wait_state("ready")
        os.kill(worker_pid(server), signal.SIGSTOP)
        assert server.embed("a").status_code == 503
        server.wait_state("stuck")
        assert server.end() == 1


def test_a_worker_without_memory_is_replaced(start_server: Start, tmp_path: Path) -> None:
    """A batch that finds none is 500, each for itself; five in a row, and a new worker answers."""
    # Attention over 512 tokens takes 128 MiB at a time, which no free space of the process can hold.
    with start_server(
        model=tiny_model(tmp_path), catalogue={"batch": [64], "length": [512]}, restart={"back_off_s": 0.05}
    ) as server:
        server.wait_state("ready")
        resource.prlimit(worker_pid(server), resource.RLIMIT_AS, (1 << 20, 1 << 20))
        statuses = [server.embed("a").status_code for _ in range(5)]
        assert statuses == [500] * 5
        server.wait_state("starting", "loading", "warming")
        assert server.wait_state("ready", "failed")["restarts"] == 1
        assert server.embed("a").status_code == 200
        assert server.end() == 0


def test_a_cut_off_weights_file_fails_with_its_path(start_server: Start, tmp_path: Path) -> None:
    """The state is readable, the process is there, nothing is tried again."""
    model = tiny_model(tmp_path)
    weights = Path(model["path"]) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with start_server(model=model) as server:
        health = server.wait_state("failed", "ready")
        assert f"{weights} is no readable safetensors file" in health["detail"]
        assert health["restarts"] == 0
        assert server.end() == 1


def test_weights_that_are_no_numbers_are_not_served(start_server: Start, tmp_path: Path) -> None:
    """One NaN is enough, wherever it is; the file itself is whole."""
    model = tiny_model(tmp_path)
    file = Path(model["path"]) / "model.safetensors"
    weights = load_file(file)
    weights["encoder.layer.0.output.dense.bias"][3] = np.nan
    save_file(weights, file)
    with start_server(model=model) as server:
        health = server.wait_state("failed", "ready")
        assert health["state"] == "failed"
        assert "not finite on the CPU itself" in health["detail"]
        assert server.embed("a").status_code == 503
        assert server.end() == 1


def test_a_worker_that_is_killed_at_work_costs_who_waits_a_503(start_server: Start, tmp_path: Path) -> None:
    """With the advice to come again, and nobody anything else; then the new worker answers."""
    with start_server(model=tiny_model(tmp_path), restart={"back_off_s": 0.05}) as server:
        server.wait_state("ready")
        pid = worker_pid(server)
        # A stopped worker holds whoever asks, so that there are some when it dies.
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(max_workers=8) as pool:
            waiting = [pool.submit(server.embed, [f"text {number}"] * 3) for number in range(8)]
            while server.metric("canary_server_queue_rows") == 0:
                time.sleep(0.02)
            os.kill(pid, signal.SIGKILL)
            answers = [each.result() for each in waiting]
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
        assert server.wait_state("ready", "failed")["restarts"] == 1
        assert server.embed("a").status_code == 200
        assert server.metric("canary_server_queue_rows") == 0
        assert server.end() == 0


@pytest.mark.emulator
def test_a_server_that_compiles_leaves_at_once(start_server: Start, tmp_path: Path) -> None:
    """In mid-warm-up: exit code 0, no worker is left, and the cache is good for a next start."""
    given = {
        "emulator": True, "device": "tpu-emulator", "model": tiny_model(tmp_path),
        "catalogue": {"batch": [1], "length": [8, 16]}, "cache_dir": str(tmp_path / "cache"),
        "drain": {"delay_s": 300, "limit_s": 300},
    }  # fmt: skip
    with start_server(**given) as server:
        server.wait_state("warming")
        pid = worker_pid(server)
        assert server.end() == 0
        assert not Path(f"/proc/{pid}").exists()
    (tmp_path / "ports.json").unlink()
    with start_server(**given) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        assert server.embed("a").status_code == 200


def test_a_cache_that_the_worker_cannot_use_fails_with_its_path(start_server: Start, tmp_path: Path) -> None:
    """A file stands where its folder should: that is found out at the load, and said."""
    cache = tmp_path / "cache"
    with start_server(model=tiny_model(tmp_path), cache_dir=str(cache)) as server:
        server.wait_state("ready")
        (folder,) = [each for each in cache.iterdir() if each.name != "digests"]
        assert server.end() == 0
    (tmp_path / "ports.json").unlink()
    folder.rename(tmp_path / "moved")
    folder.write_bytes(b"")
    with start_server(model={**server_model(tmp_path)}, cache_dir=str(cache)) as server:
        assert str(folder) in server.wait_state("failed", "ready")["detail"]
        assert server.end() == 1


def server_model(tmp_path: Path) -> dict[str, str]:
    """The tiny model that is there already."""
    return {"name": "all-MiniLM-L6-v2", "path": str(tmp_path / "tiny"), "format": "sentence-transformers"}


def test_a_full_disk_costs_the_access_log_and_no_request(start_server: Start, tmp_path: Path) -> None:
    """Said once; answers go on."""
    with start_server(model=tiny_model(tmp_path), access_log="/dev/full") as server:
        server.wait_state("ready")
        assert [server.embed("a").status_code for _ in range(3)] == [200] * 3
        (line,) = [event for event in server.events() if event["event"] == "access_log_lost"]
        assert "No space left" in line["error"]
        assert server.end() == 0


@pytest.mark.emulator
@pytest.mark.parametrize("harm", ["full", "garbage"])
def test_a_compile_cache_that_fails_costs_time_alone(start_server: Start, tmp_path: Path, harm: str) -> None:
    """Nothing can be written to it, or what it holds is garbage: shapes are compiled, and the server gets ready."""
    given = {
        "emulator": True,
        "device": "tpu-emulator",
        "model": tiny_model(tmp_path),
        "catalogue": {"batch": [1], "length": [8]},
        "cache_dir": str(tmp_path / "cache"),
    }
    if harm == "garbage":
        with start_server(**given) as server:
            assert server.wait_state("ready", "failed")["state"] == "ready"
            server.end()
        (tmp_path / "ports.json").unlink()
        for file in (tmp_path / "cache").rglob("*"):
            if stat.S_ISREG(file.lstat().st_mode):
                file.write_bytes(b"garbage")
    with start_server(**given) as server:
        if harm == "full":
            server.wait_state("warming")
            # No file may grow: what a write to a full disk says, but for the number of the error.
            resource.prlimit(worker_pid(server), resource.RLIMIT_FSIZE, (0, 0))
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        assert [each["source"] for each in health["warm_up"]] == ["compiled"]
        assert server.embed("a").status_code == 200
        assert server.end() == 0
