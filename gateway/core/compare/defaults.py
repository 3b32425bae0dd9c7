"""Default policies by dtype, matmul precision and kind of device, for each kind of content.

They are proposals for a plan; the run freezes what the plan says, and nothing loosens it afterwards. None of the
numbers was measured on TPU hardware, and each says so in ``source``.
"""

from dataclasses import dataclass
from typing import Final

from gateway.core.compare.content import FLOATS
from gateway.core.compare.paths import parse
from gateway.core.compare.policy import ComparePolicy, ContentKind, ContentPolicy, FieldRule
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Rule, TokenPrefix

EMULATED: Final = "numbers measured on the TPU emulator, not on TPU hardware; text agreement a judgement, not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One row of the table of defaults."""

    name: str
    cosine: Cosine
    elements: AbsRel
    text: TokenPrefix

    @property
    def source(self) -> str:
        return f"default for {self.name}: {EMULATED}"


# Measured with all-MiniLM-L6-v2 on the emulator against CPU float32: at `highest` differences up to 1.4e-7 and cosine
# 1.0000; in bfloat16 up to 2.1e-3 and cosine 0.998. The bounds leave room for a factor of five in 1 - cosine and of ten
# in an element. A bfloat16 has 8 significant bits: one rounding is up to 2^-8 = 0.4 % of an element. The float32 row
# also covers TF32 (11 bits, 0.05 %), which CUDA calls `high`.
_FLOAT32: Final = Bounds(
    name="float32",
    cosine=Cosine(min=0.9999, length_rel=0.001),
    elements=AbsRel(abs=1e-3, rel=1e-3),
    text=TokenPrefix(share_min=0.9),
)
_BFLOAT16: Final = Bounds(
    name="bfloat16",
    cosine=Cosine(min=0.99, length_rel=0.02),
    elements=AbsRel(abs=2e-2, rel=2e-2),
    text=TokenPrefix(tokens_min=8),
)

BOUNDS: Final = {bounds.name: bounds for bounds in (_FLOAT32, _BFLOAT16)}
"""The rows of the table by the dtype that they are named after."""

_GENERATED: Final = ("id", "created", "system_fingerprint", "service_tier", "usage.*")
# Where two texts may part, they may also end for another reason, and their logarithms of probabilities differ.
_AFTER_PARTING: Final = ("choices[*].finish_reason", "choices[*].stop_reason", "choices[*].logprobs")


def policy_with(bounds: Bounds) -> ComparePolicy:
    """Every kind of content with these bounds. What is identity, time or account of an answer is not compared."""
    chat = "choices[*].message"
    kinds = (
        (ContentKind.EMBEDDINGS, _content([("data[*].embedding", bounds.cosine)], *_GENERATED, "data[*].index")),
        (
            ContentKind.INFER,
            ContentPolicy(
                fields=(
                    FieldRule(path=parse("outputs.*"), rule=bounds.elements, datatypes=tuple(sorted(FLOATS))),
                    FieldRule(path=parse("outputs.*"), rule=Exact()),
                ),
                ignore=tuple(map(parse, ("id", "model_version", "parameters"))),
            ),
        ),
        (
            ContentKind.CHAT,
            _content(
                [(f"{chat}.content", bounds.text), (f"{chat}.reasoning_content", bounds.text)],
                *_GENERATED,
                *_AFTER_PARTING,
                f"{chat}.tool_calls[*].id",
            ),
        ),
        (ContentKind.COMPLETIONS, _content([("choices[*].text", bounds.text)], *_GENERATED, *_AFTER_PARTING)),
        (ContentKind.JSON, ContentPolicy(fields=())),
    )
    return ComparePolicy(kinds=kinds, source=bounds.source)


def _content(fields: list[tuple[str, Rule]], *ignore: str) -> ContentPolicy:
    return ContentPolicy(fields=tuple(_field(path, rule) for path, rule in fields), ignore=tuple(map(parse, ignore)))


def _field(path: str, rule: Rule, *datatypes: str) -> FieldRule:
    return FieldRule(path=parse(path), rule=rule, datatypes=datatypes)
