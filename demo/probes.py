"""The HTTP ends that the demo looks at and steers: health of a server, admin port of the gateway, the fault proxy."""

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from demo.decode import NotAsDocumented, decode
from demo.failures import DemoFailed
from demo.faults import Counts, Mode
from wire import admin
from wire.health import HealthBody

_WHO: Final = "demo"


class CommandFailed(DemoFailed):
    """The gateway refused something that the demo needs."""


def client() -> httpx.AsyncClient:
    """For loopback: no proxies of the environment, short waits."""
    return httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(10.0, connect=2.0))


def read_ports(path: Path) -> admin.Ports | None:
    """The ports of a process, None until it listens. Raises NotAsDocumented."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    return decode(raw, admin.Ports, str(path))


class Server:
    """The admin port of one server."""

    def __init__(self, http: httpx.AsyncClient, port: int) -> None:
        self._http = http
        self._url = f"http://127.0.0.1:{port}"

    async def health(self) -> HealthBody | None:
        """The body of /readyz, whatever its status; None while there is no answer."""
        try:
            answer = await self._http.get(f"{self._url}/readyz")
            return decode(answer.content, HealthBody, "the health body")
        except (httpx.HTTPError, NotAsDocumented):
            return None


class Gateway:
    """The admin port of the gateway, with its token."""

    def __init__(self, http: httpx.AsyncClient, ports: admin.Ports) -> None:
        self._http = http
        self.url = f"http://127.0.0.1:{ports.admin}"
        self.data_url = f"http://127.0.0.1:{ports.data}"
        self._token_file = Path(ports.admin_token_file) if ports.admin_token_file else None

    async def ready(self) -> bool:
        try:
            return (await self._http.get(f"{self.url}/readyz")).is_success
        except httpx.HTTPError:
            return False

    async def status(self) -> admin.Status | None:
        """None when there is no answer in time; the caller looks again. Raises NotAsDocumented."""
        try:
            answer = await self._http.get(f"{self.url}{admin.STATUS_PATH}")
        except httpx.HTTPError:
            return None
        return decode(answer.content, admin.Status, "the gateway's status") if answer.is_success else None

    async def history(self, limit: int = 1000) -> list[admin.JournalLine]:
        """The newest journal lines, oldest first. Raises CommandFailed and NotAsDocumented."""
        try:
            answer = await self._http.get(f"{self.url}{admin.HISTORY_PATH}", params={"limit": limit})
        except httpx.HTTPError as lost:
            raise CommandFailed(f"the gateway did not give its journal: {lost!r}") from lost
        if not answer.is_success:
            raise CommandFailed(f"the gateway did not give its journal ({answer.status_code}): {answer.text[:500]}")
        return decode(answer.content, admin.History, "the gateway's journal").lines

    async def explain(self) -> admin.Explanation:
        """Why things stand as they do, in the gateway's words. Raises CommandFailed and NotAsDocumented."""
        try:
            answer = await self._http.get(f"{self.url}{admin.EXPLAIN_PATH}")
        except httpx.HTTPError as lost:
            raise CommandFailed(f"the gateway did not explain itself: {lost!r}") from lost
        if not answer.is_success:
            raise CommandFailed(f"the gateway did not explain itself ({answer.status_code}): {answer.text[:500]}")
        return decode(answer.content, admin.Explanation, "the gateway's explanation")

    async def start(self, plan: dict[str, Any], reason: str) -> admin.CommandResult:
        """Open the run. Raises CommandFailed with every problem that the gateway names, and NotAsDocumented."""
        body = msgspec.json.encode(admin.StartRequest(plan=plan, reason=reason, who=_WHO))
        headers = {"content-type": "application/json"}
        if self._token_file is not None:
            headers["authorization"] = f"Bearer {self._token_file.read_text(encoding='ascii').strip()}"
        try:
            answer = await self._http.post(f"{self.url}{admin.START_PATH}", content=body, headers=headers)
        except httpx.HTTPError as lost:
            raise CommandFailed(f"the gateway did not answer to the plan: {lost!r}") from lost
        if not answer.is_success:
            raise CommandFailed(f"the gateway refused the plan ({answer.status_code}): {answer.text[:2000]}")
        return decode(answer.content, admin.CommandResult, "the gateway's answer to the plan")


async def switch_fault(port: int, mode: Mode) -> None:
    """Tell the fault proxy. Raises CommandFailed when it does not obey."""
    answer = await _tell_proxy(port, str(mode))
    if answer != f"ok {mode}":
        raise CommandFailed(f"the fault proxy answered {answer!r} to {str(mode)!r}")


async def fault_counts(port: int) -> Counts:
    """What the fault proxy has done so far. Raises CommandFailed and NotAsDocumented."""
    return decode((await _tell_proxy(port, "counts")).encode(), Counts, "the fault proxy's counts")


async def _tell_proxy(port: int, line: str) -> str:
    try:
        async with asyncio.timeout(5.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{line}\n".encode())
            answer = (await reader.readline()).decode().strip()
            writer.close()
    except OSError as lost:  # includes the time-out
        raise CommandFailed(f"the fault proxy cannot be told {line!r}: {lost!r}") from lost
    return answer
