"""What the data port works with, and the checks that its routes share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from server.adapters.asgi.exchange import Exchange
from server.core.lifecycle import Life
from server.core.outlook import refusal
from server.core.types import EngineFacts, ModelNotFound, NotReady
from server.runtime.predict import Predictor
from wire.health import Identity
from wire.statistics import ModelStatistics

_VERSION_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class DataView:
    """``version`` is the program's. ``statistics`` takes the model's name and version. ``may_shorten``: whether fewer
    ``dimensions`` may be asked for.
    """

    model: str
    version: str
    life: Callable[[], Life]
    facts: Callable[[], EngineFacts | None]
    identity: Callable[[], Identity | None]
    predictor: Predictor
    exchange: Exchange
    statistics: Callable[[str, str], ModelStatistics]
    may_shorten: bool = False

    def check_model(self, name: str, version: str | None = None) -> None:
        """Raises ModelNotFound for another model's name, or another version than the one that is served."""
        self.predictor.check_model(name)
        if version is not None and version != self.model_version():
            raise ModelNotFound(
                f"version: got {version!r}, this server serves {self.model_version()!r}", param="version"
            )

    def check_ready(self) -> None:
        """Raises NotReady."""
        if not self.life().ready:
            raise self.not_ready()

    def model_version(self) -> str:
        """The first digits of the weights' digest. Raises NotReady before they are loaded."""
        facts = self.facts()
        if facts is None:
            raise self.not_ready()
        return facts.revision[:_VERSION_DIGITS]

    def not_ready(self) -> NotReady:
        return refusal(self.life(), self.exchange.clock.monotonic())
