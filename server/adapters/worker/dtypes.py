"""Names of number formats: the protocol's and torch's."""

from typing import Final

import torch

from server.core.signature import Datatype
from server.core.types import DtypeName

WEIGHTS: Final[dict[DtypeName, torch.dtype]] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH: Final[dict[torch.dtype, Datatype]] = {
    torch.bool: "BOOL", torch.int8: "INT8", torch.int16: "INT16", torch.int32: "INT32", torch.int64: "INT64",
    torch.uint8: "UINT8", torch.float16: "FP16", torch.bfloat16: "BF16", torch.float32: "FP32", torch.float64: "FP64",
}  # fmt: skip
