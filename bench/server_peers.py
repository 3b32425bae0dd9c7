"""The servers that ours is measured against, each written as its documentation would have it.

``python -m bench.server_peers NAME PORT FOLDER``: FOLDER of the weights, or ``-`` for a model that costs nothing.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.server_work import Encoder, model_of, sentences

BATCH: Final = 32
WAIT_MS: Final = 5
PIECE: Final = 8
CEILING_S: Final = 4.0


def plain(port: int, folder: str) -> None:
    """Litestar on uvicorn, no batching."""
    import uvicorn
    from litestar import Litestar, Response, post

    model = model_of(folder)

    @post("/embed", status_code=200, sync_to_thread=False)
    def embed(data: dict[str, str]) -> Response[dict[str, Any]]:
        return Response({"embedding": model.encode([data["input"]])[0].tolist()})

    uvicorn.run(Litestar([embed], openapi_config=None), port=port, log_level="error", access_log=False)


def litserve(port: int, folder: str) -> None:
    import litserve as ls

    class Api(ls.LitAPI):  # type: ignore[misc]  # not installed where mypy runs
        def setup(self, device: str) -> None:
            self.model = model_of(folder)

        def decode_request(self, request: dict[str, str]) -> str:
            return request["input"]

        def predict(self, texts: list[str]) -> Any:
            return self.model.encode(texts)

        def encode_response(self, row: Any) -> dict[str, Any]:
            return {"embedding": row.tolist()}

    api = Api(max_batch_size=BATCH, batch_timeout=WAIT_MS / 1000, api_path="/embed")
    ls.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        port=port, num_api_servers=1, generate_client_file=False, log_level="error", access_log=False
    )


def mosec(port: int, folder: str) -> None:
    _mosec(port, folder, lambda model, texts: model.encode(texts))


def mosec_sorted(port: int, folder: str) -> None:
    _mosec(port, folder, lambda model, texts: model.encode_sorted(texts, PIECE))


def _mosec(port: int, folder: str, encode: Callable[[Any, list[str]], Any]) -> None:
    from mosec import Runtime, Server, Worker

    class Embed(Worker):  # type: ignore[misc]  # not installed where mypy runs
        def __init__(self) -> None:
            self.model = model_of(folder)

        def forward(self, data: list[dict[str, str]]) -> list[dict[str, Any]]:
            return [{"embedding": row.tolist()} for row in encode(self.model, [each["input"] for each in data])]

    sys.argv = ["mosec", "--port", str(port), "--log-level", "warning", "--timeout", "60000"]
    server = Server()
    server.register_runtime({"/embed": [Runtime(Embed, max_batch_size=BATCH, max_wait_time=WAIT_MS)]})
    server.run()


def ceiling(_: int, folder: str) -> None:
    """The model alone, sorted by length, in batches of 32: prints sentences a second."""
    model, texts = Encoder(Path(folder)), sentences(7, 512)
    model.encode_sorted(texts[:64], BATCH)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < CEILING_S:
        model.encode_sorted(texts, BATCH)
        done += len(texts)
    print(done / (time.perf_counter() - began))


SERVERS: Final[dict[str, Callable[[int, str], None]]] = {
    "plain": plain,
    "litserve": litserve,
    "mosec": mosec,
    "mosec-sorted": mosec_sorted,
    "ceiling": ceiling,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
