"""What one request gets of its batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from server.core.parts import Part, join
from server.core.tensors import Tensors
from server.core.types import Bucket


@dataclass(frozen=True, slots=True)
class Share:
    """One request's rows of a batch's outputs, and how the time was spent (seconds)."""

    outputs: Tensors
    bucket: Bucket
    queue_s: float
    batch_s: float
    device_s: float


def together(parts: Sequence[Part], answers: Sequence[Share]) -> Share:
    """One answer of all parts, which ran one after the other: the largest bucket, and the sums of their times."""
    batch_s = sum(answer.batch_s for answer in answers)
    return Share(
        join(parts, [answer.outputs for answer in answers]),
        max((answer.bucket for answer in answers), key=lambda bucket: bucket.cells),
        # What the last part waited begins with the arrival of the request.
        max(0.0, answers[-1].queue_s - (batch_s - answers[-1].batch_s)),
        batch_s,
        sum(answer.device_s for answer in answers),
    )
