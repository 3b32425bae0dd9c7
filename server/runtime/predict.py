"""From texts, token ids or tensors to outputs: check, tokenise, wait for the batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from server.core.catalog import TEXT, Catalogue
from server.core.lifecycle import Life
from server.core.outlook import refusal
from server.core.padding import shortened, stretched
from server.core.parts import cut
from server.core.tensors import Rows, TensorRows, Tensors
from server.core.types import (
    BadRequest,
    Bucket,
    EngineFacts,
    ModelNotFound,
    ShapeNotServed,
    TokenRows,
)
from server.core.visit import Visit
from server.ports.clock import Clock
from server.ports.tokenizer import Tokenizer
from server.runtime.batcher import Batcher
from server.runtime.deadline import until
from server.runtime.share import Share, together


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outputs of all rows, and where the time went (seconds). ``tokens`` counts special tokens too."""

    outputs: Tensors
    rows: int
    tokens: int
    bucket: Bucket
    queue_s: float
    batch_s: float
    device_s: float


class Predictor:
    """What both protocols call."""

    def __init__(
        self,
        model: str,
        life: Callable[[], Life],
        facts: Callable[[], EngineFacts | None],
        catalogue: Catalogue,
        tokenizer: Tokenizer,
        batcher: Batcher,
        clock: Clock,
        *,
        max_rows: int = 0,
    ) -> None:
        """``max_rows`` of one request: more than the largest batch comes in parts, up to this."""
        self._model = model
        self._life = life
        self._facts = facts
        self._catalogue = catalogue
        self._tokenizer = tokenizer
        self._batcher = batcher
        self._clock = clock
        self._max_rows = max(max_rows, catalogue.max_rows)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Those of the catalogue, in its order."""
        return self._catalogue.names

    @property
    def reads_text(self) -> bool:
        """Whether there is a tokenizer."""
        return self._tokenizer.loaded

    def check_serving(self) -> EngineFacts:
        """The engine's facts, or NotReady with the state's sentence."""
        life, facts = self._life(), self._facts()
        if not life.serves or facts is None:
            raise refusal(life, self._clock.monotonic())
        return facts

    def check_model(self, name: str, *, param: str = "model") -> None:
        """Raises ModelNotFound unless ``name`` is the one model of this server."""
        if name != self._model:
            raise ModelNotFound(f"{param}: got {name!r}, this server serves {self._model!r}", param=param)

    async def texts(self, texts: Sequence[str], visit: Visit) -> Prediction:
        """Outputs for texts. Raises a Refused; what cannot be served is not tokenised first."""
        if not self.check_serving().signature.takes_tokens or not self.reads_text:
            raise BadRequest(
                "input: got text, this model has no tokenizer for it, allowed are its own inputs", param="input"
            )
        self._check_texts(texts)
        with self._batcher.reserved(len(texts), visit):
            if visit.journey is not None:
                visit.journey.enters("tokenise", self._clock.monotonic())
            async with until(visit.deadline, self._clock, lambda: "tokenise"):
                ids = await self._tokenizer.encode(texts)
        return await self.tokens(TokenRows(ids), visit)

    async def tokens(self, tokens: TokenRows, visit: Visit) -> Prediction:
        """Outputs for ready-made token ids. Raises a Refused."""
        facts = self.check_serving()
        self._fit(tokens)
        tokens.check_vocabulary(facts.vocabulary)
        return await self._predict(tokens, visit)

    async def tensors(self, rows: TensorRows, visit: Visit) -> Prediction:
        """Outputs for the inputs of a model that takes no tokens. Raises a Refused."""
        signature = self.check_serving().signature
        self._check_rows(rows.count)
        if signature.padding == "none":
            return await self._predict(rows, visit)
        names = self._catalogue.names
        padded = stretched(rows, signature, names, self._fit(rows).sizes)
        prediction = await self._predict(padded, visit)
        return replace(prediction, outputs=shortened(prediction.outputs, signature, names, rows.sizes))

    async def _predict(self, rows: Rows, visit: Visit) -> Prediction:
        if rows.count <= self._catalogue.max_rows:
            share = await self._batcher.answer(rows, visit)
        else:
            share = await self._in_parts(rows, visit)
        return Prediction(
            outputs=share.outputs,
            rows=rows.count,
            tokens=rows.tokens,
            bucket=share.bucket,
            queue_s=share.queue_s,
            batch_s=share.batch_s,
            device_s=share.device_s,
        )

    async def _in_parts(self, rows: Rows, visit: Visit) -> Share:
        """One answer, or the first failure of a part."""
        with self._batcher.parted(rows, visit) as place:
            parts = cut(rows, self._batcher.part_rows)
            answers = [await self._batcher.answer(part.rows, visit, place) for part in parts]
        return together(parts, answers)

    def _fit(self, rows: Rows) -> Bucket:
        """Where the request belongs, were it alone. Raises ShapeNotServed."""
        self._check_rows(rows.count)
        # Of a request that comes in parts no shape is its own; its longest row must fit.
        bucket = self._catalogue.fit(min(rows.count, self._catalogue.max_rows), *rows.sizes)
        if isinstance(bucket, ShapeNotServed):
            raise bucket
        return bucket

    def _check_rows(self, rows: int) -> None:
        if rows > self._max_rows:
            each = f" of at most {self._catalogue.max_length} tokens" if self._catalogue.names == TEXT else ""
            raise ShapeNotServed(
                f"input: got {rows} rows, this server takes at most {self._max_rows} rows{each} "
                f"(catalogue {self._catalogue}); nothing is truncated",
                param="input",
            )

    def _check_texts(self, texts: Sequence[str]) -> None:
        if not texts:
            raise BadRequest("input: got no texts, at least one is needed", param="input")
        self._check_rows(len(texts))
        for text in texts:
            refused = self._catalogue.refuse_length(self._tokenizer.at_least(text, self._catalogue.max_length + 1))
            if refused is not None:
                raise refused
