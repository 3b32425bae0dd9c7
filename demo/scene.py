"""Everything the live view shows, at one moment. The play fills it, the frame draws it."""

from dataclasses import dataclass, field

from demo.arms import DEFAULT, Arms
from demo.load_view import Load
from demo.scenarios import Scenario
from demo.sizing import Sizing
from wire.admin import Status
from wire.health import HealthBody


@dataclass(slots=True)
class Scene:
    """Times are seconds of the demo's own clock, which starts at 0. ``health`` is by role.

    ``turn`` says which of several scenarios this is.
    """

    scenario: Scenario
    arms: Arms = DEFAULT
    turn: str = ""
    phase: str = "starting"
    now: float = 0.0
    health: dict[str, HealthBody] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    sizing: Sizing | None = None
    status: Status | None = None
    load: Load | None = None
    fault_at: float | None = None
