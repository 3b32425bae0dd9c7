"""Starting, failing and leaving, with real processes and signals."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from integration.server.running import MODEL, ROOT, RunningServer, document

Start = Callable[..., Any]


def worker_pid(server: RunningServer) -> int:
    """The one child process."""
    (pid,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return int(pid)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_gone(pid: int) -> None:
    end = time.monotonic() + 20
    while not gone(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def test_health_while_loading_and_leaving_before_ready(start_server: Start) -> None:
    """Live but neither started nor ready; inference is 503 with Retry-After; SIGTERM then ends at once with 0."""
    with start_server() as server:
        assert server.admin.get("/livez").status_code == 200
        for path in ("/startupz", "/readyz"):
            answer = server.admin.get(path)
            assert answer.status_code == 503
            assert answer.json()["buckets"] == 4
        for answer in (server.embed("a"), server.data.get("/v2/health/ready"), server.data.get(f"/v2/models/{MODEL}")):
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
        assert server.data.get("/v2/health/live").status_code == 200
        server.wait_state("loading")
        pid = worker_pid(server)
        assert server.end() == 0
        wait_gone(pid)
        assert "ready" not in [event["event"] for event in server.events()]


def test_sigterm_under_load_drops_nothing(start_server: Start) -> None:
    """Ready falls at once, requests are served through the lame duck, and the exit code is 0."""
    with start_server(drain={"delay_s": 1.0, "limit_s": 10}) as server:
        server.wait_state("ready")
        pid = worker_pid(server)
        outcomes: list[str] = []
        served, closing, stop = threading.Event(), threading.Event(), threading.Event()

        def ask() -> None:
            with httpx.Client(base_url=server.data.base_url, timeout=20) as client:
                while not stop.is_set():
                    try:
                        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": "Hello world"})
                    except httpx.ConnectError:
                        outcomes.append("refused")
                        return
                    except httpx.TransportError as error:
                        outcomes.append(type(error).__name__)
                        return
                    outcomes.append(str(answer.status_code))
                    served.set()
                    if answer.headers.get("connection") == "close":
                        closing.set()

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert served.wait(20)
            server.process.send_signal(signal.SIGTERM)
            server.wait_state("draining")
            assert server.admin.get("/readyz").status_code == 503
            assert server.admin.get("/livez").status_code == 200
            assert closing.wait(20), "answers of a draining server close their connection"
            assert server.process.wait(30) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
        assert set(outcomes) <= {"200", "refused"}
        wait_gone(pid)


def test_a_second_signal_cuts_off_what_does_not_end(start_server: Start) -> None:
    """A request whose body never comes holds the drain; the second signal does not wait, and the exit code says so."""
    with start_server(drain={"delay_s": 0.0, "limit_s": 600}) as server:
        server.wait_state("ready")
        address = (server.data.base_url.host, server.data.base_url.port)
        with socket.create_connection(address) as slow:
            slow.sendall(
                b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n"
            )
            assert slow.recv(100).startswith(b"HTTP/1.1 100")
            server.process.send_signal(signal.SIGTERM)
            server.wait_state("draining")
            assert server.end() == 1
        (cut_off,) = [event for event in server.events() if event["event"] == "drain_limit"]
        assert cut_off["requests"] == 1


def test_ctrl_c_reaches_front_and_worker_and_still_drains(start_server: Start) -> None:
    """The worker ignores the signal; the front decides."""
    with start_server() as server:
        server.wait_state("ready")
        pid = worker_pid(server)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        assert server.embed("a").status_code == 200
        assert server.end(signal.SIGINT) == 0
        wait_gone(pid)


def test_a_killed_worker_ends_readiness_at_once_and_is_replaced(start_server: Start) -> None:
    """Refused with 503 and the reason until the new one is warm; then all is as before, and the exit code is 0."""
    with start_server(restart={"back_off_s": 0.05}) as server:
        server.wait_state("ready")
        pid = worker_pid(server)
        os.kill(pid, signal.SIGKILL)
        health = server.wait_state("starting", "loading")
        assert "signal 9" in health["detail"]
        assert server.admin.get("/readyz").status_code == 503
        assert [server.admin.get(path).status_code for path in ("/livez", "/startupz")] == [200, 200]
        answer = server.embed("a")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "signal 9" in answer.json()["error"]["message"]
        assert server.wait_state("ready")["restarts"] == 1
        wait_gone(pid)
        assert server.embed("a").status_code == 200
        assert server.metric("canary_server_worker_restarts_total") == 1
        assert server.end() == 0


def test_a_worker_that_is_lost_too_often_ends_the_server(start_server: Start) -> None:
    """Not live and not ready, with the reason; the exit code says so."""
    with start_server(restart={"limit": 0}) as server:
        server.wait_state("loading")
        os.kill(worker_pid(server), signal.SIGKILL)
        assert "signal 9" in server.wait_state("failed")["detail"]
        for path in ("/livez", "/readyz", "/startupz"):
            assert server.admin.get(path).status_code == 503
        assert server.end() == 1


def test_a_killed_front_takes_its_worker_along(start_server: Start) -> None:
    """No orphan holds the device."""
    with start_server() as server:
        server.wait_state("loading")
        pid = worker_pid(server)
        server.end(signal.SIGKILL)
        wait_gone(pid)


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ({"path": "/absent"}, "/absent"),
        ({"sha256": "0" * 64}, "model.sha256"),
    ],
)
def test_a_model_that_cannot_be_loaded_stays_readable(start_server: Start, model: dict[str, str], part: str) -> None:
    """State failed with the reason, until somebody ends the process."""
    base = document(Path("/"))["model"]
    with start_server(model={**base, **model}) as server:
        health = server.wait_state("failed")
        assert part in health["detail"]
        assert server.admin.get("/readyz").status_code == 503
        assert server.admin.get("/livez").status_code == 503
        assert server.process.poll() is None
        assert server.end() == 1


def test_broken_weights_fail_with_their_path(start_server: Start, tmp_path: Path) -> None:
    """A file that is no safetensors is named, not served."""
    base = document(tmp_path)["model"]
    copy = tmp_path / "model"
    copy.mkdir()
    for item in Path(base["path"]).iterdir():
        if item.name != "model.safetensors":
            (copy / item.name).symlink_to(item)
    (copy / "model.safetensors").write_bytes(b"not weights at all")
    with start_server(model={**base, "path": str(copy)}) as server:
        assert "model.safetensors is no readable safetensors file" in server.wait_state("failed", "ready")["detail"]


def test_a_catalogue_longer_than_the_model_fails_with_both_numbers(start_server: Start) -> None:
    """513 tokens have no position."""
    with start_server(catalogue={"batch": [1], "length": [513]}) as server:
        assert "got 513, this model takes at most 512" in server.wait_state("failed", "ready")["detail"]


def refused(tmp_path: Path, *arguments: str, **changes: Any) -> tuple[int, str, float]:
    """Exit code, stderr and seconds of a start that is refused."""
    config = tmp_path / "server.yaml"
    config.write_text(yaml.safe_dump(document(tmp_path, **changes)))
    environment = {key: value for key, value in os.environ.items() if key != "CANARY_ALLOW_EMULATOR"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "server", "--config", str(config), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=60,
    )
    return done.returncode, done.stderr, time.monotonic() - began


def test_a_tpu_without_hardware_is_refused_at_once(tmp_path: Path) -> None:
    """One sentence with the choices, before any port opens; libtpu would search for minutes."""
    code, stderr, _ = refused(tmp_path, "--device", "tpu")
    assert code == 2
    (line,) = stderr.splitlines()
    for part in ("no TPU", "cpu", "cuda", "tpu-emulator"):
        assert part in line
    assert not (tmp_path / "ports.json").exists()


def test_the_emulator_without_a_word_is_refused(tmp_path: Path) -> None:
    """By file or by command line."""
    for arguments, changes in (((), {"device": "tpu-emulator"}), (("--device", "tpu-emulator"), {})):
        code, stderr, _ = refused(tmp_path, *arguments, **changes)
        assert code == 2
        assert "CANARY_ALLOW_EMULATOR=1" in stderr


def test_every_problem_of_the_configuration_is_listed(tmp_path: Path) -> None:
    """One a line, before any port opens."""
    code, stderr, _ = refused(tmp_path, strict=False, threads=0, admin={"host": "0.0.0.0"})
    assert code == 2
    assert len(stderr.splitlines()) == 3
    assert not (tmp_path / "ports.json").exists()


def test_a_port_that_is_taken_is_an_error_of_the_start(tmp_path: Path, cpu_server: RunningServer) -> None:
    """Exit code 1 and the reason."""
    taken = cpu_server.data.base_url.port
    code, stderr, _ = refused(tmp_path, listen={"port": taken})
    assert code == 1
    assert f"listen: got 127.0.0.1:{taken}, cannot be opened: [Errno 98] Address already in use" in stderr
