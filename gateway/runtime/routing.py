"""The present routing snapshot and everything that must change with it in one step."""

from dataclasses import dataclass

from gateway.core.effects import Standing
from gateway.core.leg import Patience
from gateway.core.routes import Routes
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.types import Lane, Role
from gateway.runtime.tallies import Limits, StreamLimits


@dataclass(frozen=True, slots=True)
class Route:
    """One snapshot, prepared for the request path."""

    snapshot: Snapshot
    routes: Routes
    limits: Limits
    stream_limits: StreamLimits
    slowest_limit_s: float
    baseline: Patience
    candidate: Patience | None


class Routing:
    """Which snapshot holds, and what may still be written to an arm.

    Requests in a queue ask ``may_write`` at the moment of writing. ``apply`` runs in one step of the event loop, so
    once it has returned nothing of an older epoch can be written to the candidate: that is what an Ack promises.
    """

    def __init__(self) -> None:
        self.route: Route | None = None
        self.tripped = False
        self.baseline_was_ready = False
        self.draining = False

    def apply(self, snapshot: Snapshot) -> bool:
        """Follow ``snapshot``; True when it begins a new epoch. A new epoch closes this worker's breaker."""
        before = self.route
        new_epoch = before is None or before.snapshot.epoch != snapshot.epoch
        if new_epoch:
            self.tripped = False
        self.baseline_was_ready = self.baseline_was_ready or snapshot.baseline.ready
        self.route = _prepare(snapshot, before)
        return new_epoch

    def may_write(self, epoch: int, arm: ArmSnapshot, lane: Lane) -> bool:
        """Whether a request taken in under ``epoch`` may be written to ``arm`` now.

        ``arm`` is the one it was sent to; after roles were swapped or an address changed it is no longer the one that
        plays that role.
        """
        if self.route is None:
            return False
        snapshot = self.route.snapshot
        present = snapshot.baseline if arm.role is Role.BASELINE else snapshot.candidate
        if present is None or (present.name, present.host, present.port) != (arm.name, arm.host, arm.port):
            return False
        if arm.role is Role.BASELINE and lane is not Lane.COPY:
            return True
        if snapshot.epoch != epoch or not snapshot.judging:
            return False  # a copy to the baseline, too: its pair would be nobody's evidence
        if arm.role is Role.BASELINE:
            return True
        share = snapshot.copies if lane is Lane.COPY else snapshot.weight
        return share > 0 and not self.tripped

    def candidate_standing(self, in_flight: int) -> Standing:
        """``in_flight``: requests that the candidate is busy with for this worker, in the lanes that count."""
        assert self.route is not None
        snapshot = self.route.snapshot
        arm = snapshot.candidate
        if arm is None or not snapshot.judging or not (arm.ready or snapshot.candidate_was_ready):
            return Standing.ABSENT
        if not arm.ready:
            return Standing.UNREADY
        if self.tripped:
            return Standing.TRIPPED
        return _full_or_able(arm, in_flight)

    def baseline_standing(self, in_flight: int) -> Standing:
        """Readiness is no part of it: when the baseline is said to be unready there is still nothing better to ask."""
        assert self.route is not None
        return _full_or_able(self.route.snapshot.baseline, in_flight)

    @property
    def baseline_is_ready(self) -> bool:
        """What the last poll said; it decides about copies, which can be left out."""
        return self.route is not None and self.route.snapshot.baseline.ready


def _full_or_able(arm: ArmSnapshot, in_flight: int) -> Standing:
    return Standing.FULL if in_flight >= arm.max_in_flight else Standing.ABLE


def _prepare(snapshot: Snapshot, before: Route | None) -> Route:
    limits = tuple(None if ms is None else ms / 1000.0 for ms in snapshot.lat_limits_ms)
    p50, p95, p99 = limits
    first_event, gap = (None if ms is None else ms / 1000.0 for ms in snapshot.stream_limits_ms)
    same_routes = (
        before is not None
        and before.snapshot.baseline.profile == snapshot.baseline.profile
        and before.snapshot.model == snapshot.model
    )
    return Route(
        snapshot=snapshot,
        routes=before.routes
        if before is not None and same_routes
        else Routes(snapshot.baseline.profile, snapshot.model),
        limits=(p50, p95, p99),
        stream_limits=(first_event, gap),
        slowest_limit_s=max((limit for limit in (*limits, first_event) if limit is not None), default=0.0),
        baseline=_patience(snapshot.baseline),
        candidate=None if snapshot.candidate is None else _patience(snapshot.candidate),
    )


def _patience(arm: ArmSnapshot) -> Patience:
    return Patience(arm.first_byte_s, arm.total_s)
