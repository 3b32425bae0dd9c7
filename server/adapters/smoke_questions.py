"""Requests of the size of a bucket for whichever model a server says that it has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from server.core.signature import FLOATS, IDS
from server.core.types import Bucket
from wire import framing
from wire.tensors import LAYOUTS, to_raw


@dataclass(frozen=True, slots=True)
class Questions:
    """``dimensions`` name the sizes of a bucket; whole numbers are below ``vocabulary``."""

    dimensions: tuple[str, ...]
    vocabulary: int

    def body(self, metadata: Mapping[str, Any], bucket: Bucket) -> tuple[bytes, dict[str, str]]:
        """Of as many rows as the bucket has, and headers. ``metadata`` is the server's answer about its model.

        Token ids go as JSON, as most clients send them, other tensors behind it.
        """
        names = [each["name"] for each in metadata["inputs"]]
        if IDS in names:
            ids = self._values("INT64", (bucket.batch, bucket.length)).tolist()
            tensor = {"name": IDS, "datatype": "INT64", "shape": [bucket.batch, bucket.length], "data": ids}
            return json.dumps({"inputs": [tensor]}).encode(), {"content-type": "application/json"}
        tensors, raw = [], b""
        for each in metadata["inputs"]:
            shape = self._shape(metadata["parameters"]["shapes"][each["name"]], bucket)
            piece = to_raw(each["datatype"], self._values(each["datatype"], shape))
            tensors.append({**each, "shape": list(shape), "parameters": {framing.SIZE: len(piece)}})
            raw += piece
        head = json.dumps({"inputs": tensors}).encode()
        return head + raw, {"content-type": framing.OCTETS, framing.HEADER: str(len(head))}

    def _shape(self, spelt: list[Any], bucket: Bucket) -> tuple[int, ...]:
        sizes = dict(zip(self.dimensions, bucket.sizes, strict=False))
        return (bucket.batch, *(sizes[each] if isinstance(each, str) else each for each in spelt[1:]))

    def _values(self, datatype: str, shape: tuple[int, ...]) -> Any:
        steps = np.arange(prod(shape), dtype=np.int64) * 7919
        if datatype in FLOATS:
            return (steps % 1000 / 500 - 1).astype(np.float32).reshape(shape)
        return (steps % (2 if datatype == "BOOL" else self.vocabulary)).astype(LAYOUTS[datatype]).reshape(shape)
