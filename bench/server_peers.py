"""A plain handler, and the model alone: ``python -m bench.server_peers NAME PORT FOLDER``.

FOLDER of the weights, or ``-`` for a model that costs nothing.
"""

import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.server_work import BATCH, Encoder, model_of, sentences

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


def ceiling(_: int, folder: str) -> None:
    """The model alone, sorted by length, in batches of 32: prints sentences a second."""
    model, texts = Encoder(Path(folder)), sentences(7, 512)
    model.encode_sorted(texts[:64], BATCH)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < CEILING_S:
        model.encode_sorted(texts, BATCH)
        done += len(texts)
    print(done / (time.perf_counter() - began))


if __name__ == "__main__":
    {"plain": plain, "ceiling": ceiling}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
