"""From texts or token ids to vectors: check, tokenise, wait for the batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.core.admission import deadline_at
from server.core.lifecycle import Life
from server.core.types import BadRequest, Bucket, EngineFacts, ModelNotFound, NotReady, TokenRows
from server.ports.tokenizer import Tokenizer
from server.runtime.batcher import Batcher


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
    compiles: int


class Predictor:
    """What both protocols call."""

    def __init__(
        self,
        model: str,
        life: Callable[[], Life],
        facts: Callable[[], EngineFacts | None],
        tokenizer: Tokenizer,
        batcher: Batcher,
    ) -> None:
        self._model = model
        self._life = life
        self._facts = facts
        self._tokenizer = tokenizer
        self._batcher = batcher

    def check_serving(self) -> EngineFacts:
        """The engine's facts, or NotReady with the state's sentence."""
        life, facts = self._life(), self._facts()
        if not life.serves or facts is None:
            raise NotReady(f"server: {life.state}: {life.detail}")
        return facts

    def check_model(self, name: str, *, param: str = "model") -> None:
        """Raises ModelNotFound unless ``name`` is the one model of this server."""
        if name != self._model:
            raise ModelNotFound(f"{param}: got {name!r}, this server serves {self._model!r}", param=param)

    async def texts(self, texts: Sequence[str], arrived: float, deadline_ms: int | None) -> Prediction:
        """Vectors of texts. Raises a Refused."""
        self.check_serving()
        if not texts:
            raise BadRequest("input: got no texts, at least one is needed", param="input")
        return await self.tokens(TokenRows(await self._tokenizer.encode(texts)), arrived, deadline_ms)

    async def tokens(self, tokens: TokenRows, arrived: float, deadline_ms: int | None) -> Prediction:
        """Vectors of ready-made token ids. Raises a Refused."""
        facts = self.check_serving()
        tokens.check_vocabulary(facts.vocabulary, field="input")
        vectors = await self._batcher.answer(tokens, arrived, deadline_at(arrived, deadline_ms))
        return Prediction(
            data=vectors.data,
            rows=tokens.count,
            dim=facts.dim,
            tokens=tokens.tokens,
            bucket=vectors.bucket,
            queue_s=vectors.queue_s,
            batch_s=vectors.batch_s,
            device_s=vectors.device_s,
            compiles=vectors.compiles,
        )
