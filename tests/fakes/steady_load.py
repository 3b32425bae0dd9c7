"""A bounded open loop of inference requests in a thread: counts answers, keeps the first unexpected one."""

import itertools
import threading
import time
from collections import Counter
from types import TracebackType

import httpx


class SteadyLoad:
    """``rate`` requests a second until left, at most ``limit``. ``statuses`` counts what clients saw.

    stream: ask for events.
    infer: by the Open Inference Protocol, not as OpenAI embeddings.
    tenants: so many take turns and name themselves in the header x-tenant (acme-0 and so on); 0: nobody does.
    """

    def __init__(
        self,
        url: str,
        *,
        rate: float = 60.0,
        clients: int = 4,
        limit: int = 20_000,
        tenants: int = 0,
        stream: bool = False,
        infer: bool = False,
    ) -> None:
        self._path = "/v2/models/m/infer" if infer else "/v1/embeddings"
        self._infer = infer
        self._url, self._rate, self._limit = url, rate / clients, limit // clients
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(clients)]
        self.statuses: Counter[object] = Counter()
        self._lock = threading.Lock()
        self._tenants, self._turn = tenants, itertools.count()
        self._asked = {"stream": True} if stream else {}

    def __enter__(self) -> "SteadyLoad":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)

    def _run(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=20, trust_env=False) as client:
            due = time.monotonic()
            for i in range(self._limit):
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                due += 1.0 / self._rate
                text = f"text {number} {i}"
                body: dict[str, object] = {"model": "m", "input": text, **self._asked}
                if self._infer:
                    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]}
                headers = {"x-tenant": f"acme-{next(self._turn) % self._tenants}"} if self._tenants else {}
                try:
                    seen: object = client.post(self._path, json=body, headers=headers).status_code
                except httpx.HTTPError as error:
                    seen = type(error).__name__
                with self._lock:
                    self.statuses[seen] += 1
