"""Leaving under load and with clients who do not get to their end, with real processes and signals."""

import http.client
import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.server.running import MODEL, RunningServer, tiny_model

Start = Callable[..., Any]
QUESTION = json.dumps({"model": MODEL, "input": "Hello world"}).encode()
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n"
BEFORE_SIGNAL = 2000


def half_a_body(server: RunningServer) -> socket.socket:
    """A connection whose request is being read by the server, and whose body does not come to its end."""
    slow = socket.create_connection((server.data.base_url.host, server.data.base_url.port), timeout=60)
    slow.sendall(HEAD % len(QUESTION) + b"expect: 100-continue\r\n\r\n")
    assert slow.recv(100).startswith(b"HTTP/1.1 100")
    slow.sendall(QUESTION[:10])
    return slow


def everything(slow: socket.socket) -> bytes:
    found = b""
    while part := slow.recv(65536):
        found += part
    return found


class Load:
    """Threads that ask one after the other until the port refuses, each on a connection that it keeps."""

    def __init__(self, server: RunningServer, threads: int = 4) -> None:
        self._address = server.data.base_url.host, server.data.base_url.port
        self._count = threading.Lock()
        self.outcomes: dict[str, int] = {}
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def _ask(self) -> None:
        outcome = "200"
        client = http.client.HTTPConnection(*self._address, timeout=60)
        while outcome == "200":
            try:
                client.request("POST", "/v1/embeddings", QUESTION)
                answer = client.getresponse()
                answer.read()
                outcome = str(answer.status)
            except ConnectionRefusedError:
                outcome = "the port is closed"
            except (OSError, http.client.HTTPException) as error:
                outcome = repr(error)
            with self._count:
                self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
                if self.outcomes.get("200", 0) >= BEFORE_SIGNAL or outcome != "200":
                    self.enough.set()
        client.close()


def test_sigterm_under_load_fails_none_of_two_thousand(start_server: Start, tmp_path: Path) -> None:
    """Kept connections and new ones, before the signal and after it: 200 or a port that is closed; exit code 0."""
    with start_server(model=tiny_model(tmp_path), catalogue={"batch": [1, 4], "length": [8]}) as server:
        server.wait_state("ready")
        load = Load(server)
        for thread in load.threads:
            thread.start()
        assert load.enough.wait(300)
        code = server.end(timeout=60)
        for thread in load.threads:
            thread.join(60)
        assert set(load.outcomes) == {"200", "the port is closed"}, load.outcomes
        assert load.outcomes["200"] >= BEFORE_SIGNAL
        assert code == 0


def test_who_is_in_its_body_at_the_end_of_the_drain_is_answered(start_server: Start, tmp_path: Path) -> None:
    """503 in the protocol's shape with the advice to try again, then the connection ends; it is no clean drain."""
    with start_server(model=tiny_model(tmp_path), drain={"delay_s": 0.0, "limit_s": 1.0}) as server:
        server.wait_state("ready")
        with half_a_body(server) as slow:
            server.process.send_signal(signal.SIGTERM)
            answer = everything(slow)
        assert answer.startswith(b"HTTP/1.1 503")
        for part in (b"retry-after:", b"connection: close", b'"code":"draining"', b"server: stopping"):
            assert part in answer
        assert server.process.wait(30) == 1
        (line,) = [event for event in server.events() if event["event"] == "drain_limit"]
        assert (line["requests"], line["cut_off"]) == (1, 0)


def test_who_is_in_its_body_when_an_unready_server_leaves_is_answered(start_server: Start) -> None:
    """It leaves at once all the same, with exit code 0: nobody was served."""
    with start_server() as server:
        server.wait_state("loading")
        with half_a_body(server) as slow:
            server.process.send_signal(signal.SIGTERM)
            assert everything(slow).startswith(b"HTTP/1.1 503")
        assert server.process.wait(30) == 0


def test_clients_that_are_slow_or_gone_are_nobody_elses_concern(start_server: Start, tmp_path: Path) -> None:
    """Some stay in their body, some leave in it, some leave before their answer: others are served, and it drains."""
    with start_server(model=tiny_model(tmp_path)) as server:
        server.wait_state("ready")
        slow = [half_a_body(server) for _ in range(5)]
        for _ in range(20):
            half_a_body(server).close()
            gone = socket.create_connection((server.data.base_url.host, server.data.base_url.port))
            gone.sendall(HEAD % len(QUESTION) + b"\r\n" + QUESTION)
            gone.close()
        assert server.embed("a").status_code == 200
        for each in slow:
            each.sendall(QUESTION[10:] if each is slow[0] else b"")
        assert slow[0].recv(100).startswith(b"HTTP/1.1 200")
        for each in slow:
            each.close()
        assert server.end() == 0


def test_a_body_of_megabytes_gets_its_413(start_server: Start) -> None:
    """From a client that sends all of it before it reads."""
    with start_server() as server:
        client = http.client.HTTPConnection(server.data.base_url.host, server.data.base_url.port, timeout=60)
        client.request("POST", "/v1/embeddings", b"x" * (16 * 1024 * 1024))
        answer = client.getresponse()
        assert answer.status == 413
        assert b"body_too_large" in answer.read()
        client.close()
