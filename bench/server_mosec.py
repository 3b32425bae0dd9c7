"""Mosec as documented, or with a sort in its worker; a module of its own, since its processes import it:
``NAME PORT FOLDER``.
"""

import os
import sys
from typing import Any

from mosec import Runtime, Server, Worker

from bench.server_work import BATCH, PIECE, WAIT_MS, model_of

FOLDER, SORTED = "BENCH_FOLDER", "BENCH_SORTED"


class Embed(Worker):  # type: ignore[misc]  # not installed where mypy runs
    def __init__(self) -> None:
        self.model = model_of(os.environ[FOLDER])
        self.piece = PIECE if SORTED in os.environ else 0

    def forward(self, data: list[dict[str, str]]) -> list[dict[str, Any]]:
        texts = [each["input"] for each in data]
        rows = self.model.encode_sorted(texts, self.piece) if self.piece else self.model.encode(texts)
        return [{"embedding": row.tolist()} for row in rows]


if __name__ == "__main__":
    name, port, os.environ[FOLDER] = sys.argv[1:4]
    if name == "mosec-sorted":
        os.environ[SORTED] = "1"
    sys.argv = ["mosec", "--port", port, "--log-level", "warning", "--timeout", "60000"]
    server = Server()
    server.register_runtime({"/embed": [Runtime(Embed, max_batch_size=BATCH, max_wait_time=WAIT_MS)]})
    server.run()
