"""A plain handler, and the model alone: ``python -m bench.server_peers plain PORT FOLDER`` or ``ceiling SEED FOLDER
SECONDS``.

FOLDER of the weights, or ``-`` for a model that costs nothing.
"""

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.server_work import CHECKED, Encoder, model_of, sentences

FULL: Final = 16


def plain(port: int, folder: str) -> None:
    """Litestar on uvicorn, no batching."""
    import uvicorn
    from litestar import Litestar, Response, post

    model = model_of(folder)

    @post("/embed", status_code=200, sync_to_thread=False)
    def embed(data: dict[str, str]) -> Response[dict[str, Any]]:
        return Response({"embedding": model.encode([data["input"]])[0].tolist()})

    uvicorn.run(Litestar([embed], openapi_config=None), port=port, log_level="error", access_log=False)


def ceiling(number: int, folder: str, seconds: float) -> None:
    """The model alone, eager, batches up to 16 of equal lengths only.

    Prints sentences a second, CPU seconds of one, and the vectors of some.
    """
    model, texts = Encoder(Path(folder)), sentences(number, 4096)
    vectors = [model.encode([text])[0].tolist() for text in texts[:CHECKED]]
    alike: dict[int, list[str]] = {}
    for text in texts:
        alike.setdefault(len(text.split()), []).append(text)
    batches = [same[at : at + FULL] for same in alike.values() for at in range(0, len(same), FULL)]
    random.Random(number).shuffle(batches)
    began, before, done = time.perf_counter(), time.process_time(), 0
    for batch in itertools.cycle(batches):
        model.encode(batch)
        done += len(batch)
        if time.perf_counter() - began > seconds:
            break
    took, cpu = time.perf_counter() - began, time.process_time() - before
    print(json.dumps({"rate": done / took, "cpu_s": cpu / done, "vectors": vectors}))


if __name__ == "__main__":
    name, number, *rest = sys.argv[1:]
    if name == "ceiling":
        ceiling(int(number), rest[0], float(rest[1]))
    else:
        plain(int(number), rest[0])
