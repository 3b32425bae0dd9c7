"""Names of number formats: the protocol's, torch's and numpy's."""

from typing import Any, Final

import numpy as np
import torch

from server.core.signature import Datatype
from server.core.types import DtypeName

WEIGHTS: Final[dict[DtypeName, torch.dtype]] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH: Final[dict[torch.dtype, Datatype]] = {
    torch.bool: "BOOL", torch.int8: "INT8", torch.int16: "INT16", torch.int32: "INT32", torch.int64: "INT64",
    torch.uint8: "UINT8", torch.float16: "FP16", torch.bfloat16: "BF16", torch.float32: "FP32", torch.float64: "FP64",
}  # fmt: skip
NUMPY: Final[dict[Datatype, Any]] = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
"""BF16 is none of numpy's: on the host such numbers are float32."""
