"""LitServe as documented; a module of its own, since its processes import it: ``NAME PORT FOLDER``."""

import sys
from typing import Any

import litserve as ls

from bench.server_work import BATCH, WAIT_MS, model_of


class Api(ls.LitAPI):  # type: ignore[misc]  # not installed where mypy runs
    folder = "-"

    def setup(self, device: str) -> None:
        self.model = model_of(self.folder)

    def decode_request(self, request: dict[str, str]) -> str:
        return request["input"]

    def predict(self, texts: list[str]) -> Any:
        return self.model.encode(texts)

    def encode_response(self, row: Any) -> dict[str, Any]:
        return {"embedding": row.tolist()}


if __name__ == "__main__":
    api = Api(max_batch_size=BATCH, batch_timeout=WAIT_MS / 1000, api_path="/embed")
    api.folder = sys.argv[3]
    ls.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        port=int(sys.argv[2]), num_api_servers=1, generate_client_file=False, log_level="error", access_log=False
    )
