"""The tolerance that a smoke proposes for the plan: the lines of YAML for its ``compare``, and where they come from.

A bound stands so many times as far from perfect agreement as the worst row or element that was seen; never further
than the row of defaults for the same arithmetic, and never nearer than a tenth of that: a smoke sees few inputs, and
the baseline's own rounding comes on top. The room is that of the defaults: five times in 1 - cosine and in length, ten
times in an element. From answers that differ by more than the defaults allow nothing is proposed: a tolerance is not
widened to make a candidate pass.
"""

import math
from collections.abc import Sequence
from typing import Final

from server.core.signature import ModelSignature
from server.core.smoke import BucketRun
from server.core.tolerance import Tolerance

ROOM: Final = 5.0
ELEMENT_ROOM: Final = 10.0
NEAREST: Final = 0.1
_FLOATS: Final = "[BF16, FP16, FP32, FP64]"
_EMBEDDINGS: Final = "[id, created, system_fingerprint, service_tier, usage.*, 'data[*].index']"


def proposed(tolerance: Tolerance, runs: Sequence[BucketRun]) -> Tolerance:
    """Bounds from what ``runs`` show, at most as wide as ``tolerance``, under which they all passed."""
    away = max(1.0 - run.difference.cosine_min for run in runs)
    length = max(run.difference.length_rel for run in runs)
    elements = _share(ELEMENT_ROOM * max(run.difference.used for run in runs))
    widest = 1.0 - tolerance.cosine_min
    return Tolerance(
        name=tolerance.name,
        cosine_min=round(1.0 - _outward(widest * _share(ROOM * away / widest)), 12),
        length_rel=_outward(tolerance.length_rel * _share(ROOM * length / tolerance.length_rel)),
        absolute=_outward(tolerance.absolute * elements),
        relative=_outward(tolerance.relative * elements),
    )


def yaml_lines(bounds: Tolerance, signature: ModelSignature, about: Sequence[str]) -> tuple[str, ...]:
    """For a plan: an embedding is held to its direction and length, other outputs element by element."""
    cosine = f"rule: cosine, min: {_number(bounds.cosine_min)}, length_rel: {_number(bounds.length_rel)}"
    elements = f"rule: abs_rel, abs: {_number(bounds.absolute)}, rel: {_number(bounds.relative)}"
    embeds = signature.task == "embedding"
    lines = [*(f"# {text}" for text in about), "compare:", f"  defaults: {bounds.name}", "  kinds:"]
    if embeds:
        lines += _kind("openai_embeddings", f"path: 'data[*].embedding', {cosine}", _EMBEDDINGS)
    rule = cosine if embeds else elements
    lines += _kind("oip_infer", f"path: outputs.*, datatypes: {_FLOATS}, {rule}", "[id, model_version, parameters]")
    return tuple(lines)


def _kind(name: str, field: str, ignored: str) -> list[str]:
    return [f"    {name}:", "      fields:", f"        - {{{field}}}", f"      ignore: {ignored}"]


def _number(value: float) -> str:
    """Without an exponent: YAML 1.1 takes 2e-05 for a text."""
    return f"{value:.12f}".rstrip("0")


def _share(wanted: float) -> float:
    """Of the default's distance from perfect agreement."""
    return min(1.0, max(NEAREST, wanted))


def _outward(value: float) -> float:
    """Up to two significant digits; a millionth of a digit is rounding, not more."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / digit - 1e-6) * digit:.1e}")
