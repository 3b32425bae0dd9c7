"""From texts or token ids to vectors: check, tokenise, wait for the batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.core.catalog import Catalogue
from server.core.lifecycle import Life
from server.core.outlook import refusal
from server.core.parts import cut
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
from server.runtime.vectors import Vectors, together


@dataclass(frozen=True, slots=True)
class Prediction:
    """Float32 rows [rows, dim] and where the time went (seconds). ``tokens`` counts special tokens too."""

    data: bytes
    rows: int
    dim: int
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
        """Vectors of texts. Raises a Refused; what cannot be served is not tokenised first."""
        self.check_serving()
        self._check_texts(texts)
        with self._batcher.reserved(len(texts), visit):
            async with until(visit.deadline, self._clock, lambda: "tokenise"):
                ids = await self._tokenizer.encode(texts)
        return await self.tokens(TokenRows(ids), visit)

    async def tokens(self, tokens: TokenRows, visit: Visit) -> Prediction:
        """Vectors of ready-made token ids. Raises a Refused."""
        facts = self.check_serving()
        self._check_shape(tokens)
        tokens.check_vocabulary(facts.vocabulary)
        if tokens.count <= self._catalogue.max_rows:
            vectors = await self._batcher.answer(tokens, visit)
        else:
            vectors = await self._in_parts(tokens, visit, facts.dim)
        return Prediction(
            data=vectors.data,
            rows=tokens.count,
            dim=facts.dim,
            tokens=tokens.tokens,
            bucket=vectors.bucket,
            queue_s=vectors.queue_s,
            batch_s=vectors.batch_s,
            device_s=vectors.device_s,
        )

    async def _in_parts(self, tokens: TokenRows, visit: Visit, dim: int) -> Vectors:
        """One answer, or the first failure of a part."""
        with self._batcher.parted(tokens, visit) as place:
            parts = cut(tokens, self._batcher.part_rows)
            answers = [await self._batcher.answer(part.tokens, visit, place) for part in parts]
        return together(parts, answers, dim)

    def _check_shape(self, tokens: TokenRows) -> None:
        self._check_rows(tokens.count)
        # Of a request that comes in parts no shape is its own; its longest row must fit.
        bucket = self._catalogue.fit(min(tokens.count, self._catalogue.max_rows), tokens.width)
        if isinstance(bucket, ShapeNotServed):
            raise bucket

    def _check_rows(self, rows: int) -> None:
        if rows > self._max_rows:
            raise ShapeNotServed(
                f"input: got {rows} rows, this server takes at most {self._max_rows} rows of at most "
                f"{self._catalogue.max_length} tokens (catalogue {self._catalogue}); nothing is truncated",
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
