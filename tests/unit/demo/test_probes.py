import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from demo.decode import NotAsDocumented
from demo.probes import CommandFailed, Gateway, Server, client, read_ports
from wire.admin import CommandResult, Explanation, History, JournalLine, Ports, Refusal


@pytest.fixture
def port_and_answers() -> Iterator[tuple[int, dict[str, tuple[int, Any]], list[Any]]]:
    """A port that gives fixed answers by path and keeps the requests it got."""
    answers: dict[str, tuple[int, Any]] = {}
    requests: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            requests.append((self.path, self.headers.get("authorization"), body))
            status, answer = answers[self.path.partition("?")[0]]
            raw = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_address[1], answers, requests
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_health_is_read_whatever_its_status(make: Any, port_and_answers: Any) -> None:
    """A warming server answers 503 with its progress; one that does not answer gives nothing."""
    port, answers, _ = port_and_answers
    answers["/readyz"] = (503, make.health(state="warming"))

    async def look() -> None:
        async with client() as http:
            body = await Server(http, port).health()
            assert body is not None
            assert body.state == "warming"
            answers["/readyz"] = (200, b"not a health body")
            assert await Server(http, port).health() is None
            assert await Server(http, 1).health() is None

    asyncio.run(look())


def test_gateway_start_sends_the_token(make: Any, port_and_answers: Any, tmp_path: Path) -> None:
    """The run is opened with the operator token of the gateway's file, and history comes back in order."""
    port, answers, requests = port_and_answers
    (tmp_path / "token").write_text("secret\n")
    answers["/v1/start"] = (200, CommandResult(state="validating", epoch=2, weight=0, detail=""))
    line = JournalLine(seq=1, at=0.0, run_id=None, epoch=1, kind="start", who="demo", text="t")
    answers["/v1/history"] = (200, History(lines=[line]))
    answers["/v1/status"] = (200, make.status())
    answers["/readyz"] = (503, b"{}")
    said = Explanation(at=0.0, state="stepping", weight=1000, headline="h", facts=[], next="n")
    answers["/v1/explain"] = (200, said)

    async def steer() -> None:
        async with client() as http:
            gateway = Gateway(http, Ports(data=1, admin=port, pid=1, admin_token_file=str(tmp_path / "token")))
            assert (await gateway.start({"kind": "Plan"}, "why")).state == "validating"
            assert await gateway.history() == [line]
            assert await gateway.explain() == said
            status = await gateway.status()
            assert status is not None
            assert status.state == "stepping"
            assert not await gateway.ready()

    asyncio.run(steer())
    path, token, body = requests[0]
    assert (path, token) == ("/v1/start", "Bearer secret")
    assert msgspec.json.decode(body) == {"plan": {"kind": "Plan"}, "reason": "why", "who": "demo"}


def test_gateway_of_another_version_is_told(port_and_answers: Any) -> None:
    """A gateway whose answers are of another form ends the demo with the name of the answer."""
    port, answers, _ = port_and_answers
    answers |= dict.fromkeys(("/v1/status", "/v1/history", "/v1/start"), (200, b'{"of": "another version"}'))

    async def steer() -> None:
        async with client() as http:
            gateway = Gateway(http, Ports(data=1, admin=port, pid=1))
            with pytest.raises(NotAsDocumented, match="status"):
                await gateway.status()
            with pytest.raises(NotAsDocumented, match="journal"):
                await gateway.history()
            with pytest.raises(NotAsDocumented, match="plan"):
                await gateway.start({}, "why")

    asyncio.run(steer())


def test_refused_plan_is_told_in_full(port_and_answers: Any) -> None:
    """What the gateway says against the plan reaches the person."""
    port, answers, _ = port_and_answers
    answers["/v1/start"] = (422, Refusal(error="refused", reason="plan", problems=["steps: [] is not allowed"]))
    answers["/v1/history"] = answers["/v1/explain"] = (503, b"store away")

    async def steer() -> None:
        async with client() as http:
            gateway = Gateway(http, Ports(data=1, admin=port, pid=1))
            with pytest.raises(CommandFailed, match=r"422.*steps: \[\] is not allowed"):
                await gateway.start({}, "why")
            with pytest.raises(CommandFailed, match="503"):
                await gateway.history()
            with pytest.raises(CommandFailed, match="503"):
                await gateway.explain()
            lost = Gateway(http, Ports(data=1, admin=1, pid=1))
            with pytest.raises(CommandFailed, match="did not answer"):
                await lost.start({}, "why")
            assert await lost.status() is None

    asyncio.run(steer())


def test_ports_file(tmp_path: Path) -> None:
    """Ports are unknown until the process has written them."""
    assert read_ports(tmp_path / "ports.json") is None
    (tmp_path / "ports.json").write_bytes(msgspec.json.encode(Ports(data=1, admin=2, pid=3)))
    assert read_ports(tmp_path / "ports.json") == Ports(data=1, admin=2, pid=3)
