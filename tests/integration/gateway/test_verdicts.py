"""Verdicts of real gateway processes on faults, absence, silence, a judge that raises and a clock that is set back.

One gateway serves most tests: a run that was rolled back leaves it as it was. Windows are those of the demo, 1 s.
"""

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.arm_server import ArmServer
from fakes.control import Stage, play, seconds, started
from fakes.faulty_gateway import environment
from fakes.gateway import FakeClock, FakeStore
from fakes.gateway_process import DEMO_PLAN, GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from gateway.adapters.clock import SystemClock
from gateway.core.run import State
from gateway.core.verdict import Judge
from wire import admin

TEN_PERCENT = 1000
FAST: dict[str, Any] = {"min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2}
"""A healthy candidate leaves a step after about six seconds."""
STAYS: dict[str, Any] = {**FAST, "steps": [10, 100], "min_step_s": 40}
"""No test waits long enough for this one to leave 10 %: what ends its run is a rollback."""

WITHOUT_PARITY = {
    "slo": {name: limit for name, limit in DEMO_PLAN["slo"].items() if name != "parity"},
    "parity": None,
    "copies": {"share": 0},
}


def slo(**change: Any) -> dict[str, Any]:
    return {**DEMO_PLAN["slo"], **change}


def one_in(n: int, status: int) -> Callable[[str], int]:
    """Answers every n-th request of each client with ``status``."""
    return lambda text: status if int(text.split()[-1]) % n == 0 else 200


def candidate(g: GatewayProcess) -> admin.ArmView:
    return next(arm for arm in g.status().arms if arm.role == "candidate")


def run_of(g: GatewayProcess) -> admin.RunView:
    run = g.status().run
    assert run is not None
    return run


def reason(g: GatewayProcess) -> str:
    verdict = g.status().verdict
    return verdict.reason if verdict is not None else ""


def events(g: GatewayProcess) -> int:
    """Candidate events of the step that have been judged for errors."""
    verdict = g.status().verdict
    return sum(row.candidate_events for row in verdict.metrics if row.metric == "error") if verdict is not None else 0


def kinds(g: GatewayProcess) -> list[str]:
    """What the journal says of the present run."""
    run_id = run_of(g).run_id
    return [line.kind for line in g.history() if line.run_id == run_id]


def wait_for_time(g: GatewayProcess, at: float) -> None:
    wait_until(lambda: g.status().at > at, f"the gateway's clock at {at}")


def seen_by_clients(g: GatewayProcess) -> Counter[str]:
    """Outcomes of lane ``client`` since the gateway started."""
    counted: Counter[str] = Counter()
    pattern = r'canary_gateway_requests_total\{arm="\w+",lane="client",outcome="(\w+)"\} (\S+)'
    for outcome, n in re.findall(pattern, g.admin.get("/metrics").text):
        counted[outcome] += int(float(n))
    return +counted


@dataclass
class Site:
    baseline: ArmServer
    candidate: ArmServer
    gateway: GatewayProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
        GatewayProcess(tmp_path_factory.mktemp("shared"), baseline.url, candidate.url) as g,
    ):
        yield Site(baseline, candidate, g)


@pytest.fixture
def site(shared: Site) -> Iterator[Site]:
    """The shared gateway with two healthy arms and no open run, before the test and after it."""
    yield shared
    for arm in (shared.baseline, shared.candidate):
        arm.answers, arm.headers, arm.turned, arm.delay_s = (lambda text: 200), {}, False, 0.005
        arm.ready_at = lambda poll: True
        arm.seen.clear()
    if shared.gateway.status().state != "rolled_back":
        shared.gateway.command("rollback")


def failing(arm: ArmServer) -> None:
    arm.answers = lambda text: 500


def slow(arm: ArmServer) -> None:
    arm.delay_s = 0.5


def failing_at_times(arm: ArmServer) -> None:
    arm.answers = one_in(5, 500)


def wrong(arm: ArmServer) -> None:
    arm.turned = True


def compiling(arm: ArmServer) -> None:
    arm.headers = {"x-canary-compiles": "1"}


@pytest.mark.parametrize(
    ("fault", "limits", "metric", "rule"),
    [
        (slow, {"lat_p95": {"limit_ms": 250, "allowed": 0.05}}, "lat_p95", "evidence"),
        (failing_at_times, {}, "error", "evidence"),
        # With so much allowed the bets need several windows more than the breaker needs seconds.
        (failing, {"error": {"allowed": 0.3}}, "error", "breaker"),
        (wrong, {}, "parity", "evidence"),
        (compiling, {}, "recompile", "recompile"),
    ],
    ids=["latency", "errors", "outage", "parity", "recompile"],
)
def test_a_fault_at_a_live_weight_is_rolled_back_for_what_it_is(
    site: Site, fault: Callable[[ArmServer], None], limits: dict[str, Any], metric: str, rule: str
) -> None:
    """From 10 % of live traffic, by the right metric and rule, in the status and the journal; clients see only 200."""
    g = site.gateway
    with SteadyLoad(g.data_url, clients=8) as load:
        g.run_plan(**STAYS, slo=slo(**limits))
        g.wait_judging()
        assert (g.status().state, g.status().weight) == ("stepping", TEN_PERCENT)
        fault(site.candidate)
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
    run = run_of(g)
    assert (run.outcome, run.metric, run.rule) == ("ROLLED_BACK", metric, rule)
    assert run.decided_weight == TEN_PERCENT
    assert run.live_candidate_requests > 0
    assert g.status().weight == 0
    line = next(line for line in reversed(g.history()) if line.kind == "rollback")
    assert (line.run_id, line.data["metric"], line.data["rule"]) == (run.run_id, metric, rule)
    assert set(load.statuses) == {200}


def test_a_candidate_that_refuses_what_the_baseline_serves_is_rolled_back_and_no_client_gets_the_refusal(
    site: Site,
) -> None:
    """400 to one in ten against a limit of 1 %: booked as refused, answered by the baseline."""
    g = site.gateway
    with SteadyLoad(g.data_url) as load:
        g.run_plan(**STAYS, slo=slo(refused={"allowed": 0.01}))
        g.wait_judging()
        site.candidate.answers = one_in(10, 400)
        wait_until(lambda: candidate(g).refused > 0, "a refusal is booked")
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
    run = run_of(g)
    assert run.metric in ("refused", "parity")
    assert (run.rule, run.decided_weight) == ("evidence", TEN_PERCENT)
    assert set(load.statuses) == {200}


def test_a_candidate_that_is_ready_nine_times_of_ten_is_not_promoted(site: Site) -> None:
    """Away at every tenth poll, 1 % allowed: what the baseline served meanwhile is charged, and no step is passed."""
    g = site.gateway
    with SteadyLoad(g.data_url) as load:
        g.run_plan(**{**FAST, "max_step_s": 12}, steps=[50, 100], slo=slo(error={"allowed": 0.01}))
        g.wait_judging()
        site.candidate.ready_at = lambda poll: poll % 10 != 0
        wait_until(lambda: candidate(g).unavailable > 0, "unavailable is booked")
        wait_until(lambda: g.status().state in ("held", "rolled_back"), "an end")
        end = g.status()
    assert "advance" not in kinds(g)
    assert end.run is not None
    if end.state == "held":
        assert end.weight == 5000
    else:
        assert (end.run.metric, end.run.decided_weight) == ("error", 5000)
    assert set(load.statuses) == {200}


class Overloaded:
    """Takes ``rate`` requests a second, a fifth of them at once, and answers 503 to what is more."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free, self._at = rate, rate / 5, time.monotonic()

    def __call__(self, text: str) -> int:
        now = time.monotonic()
        self._free = min(self._rate / 5, self._free + (now - self._at) * self._rate)
        self._at = now
        if self._free < 1:
            return 503
        self._free -= 1
        return 200


def test_a_candidate_that_dies_at_half_is_rolled_back_though_the_baseline_cannot_carry_all(tmp_path: Path) -> None:
    """Failing over overloads the baseline, which does not turn the death into a shared outage; clients' 503s count."""
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as dying,
        GatewayProcess(tmp_path, baseline.url, dying.url) as g,
    ):
        with SteadyLoad(g.data_url, rate=60, clients=8) as load:
            g.run_plan(**{**STAYS, **WITHOUT_PARITY, "steps": [50, 100]})
            g.wait_judging()
            baseline.answers = Overloaded(0.7 * 60)
            wait_until(lambda: len(dying.seen) > 30, "live traffic on the candidate")
            dying.down()
            wait_until(lambda: g.status().state == "rolled_back", "rolled back")
            wait_until(lambda: load.statuses[503] > 0, "more than the baseline can carry")
        run = run_of(g)
        assert (run.outcome, run.metric, run.decided_weight) == ("ROLLED_BACK", "error", 5000)
        assert "inconclusive" not in kinds(g)
        assert set(load.statuses) == {200, 503}
        told = {"ok": load.statuses[200], "failed": load.statuses[503]}
        wait_until(lambda: seen_by_clients(g) == told, f"{told} in lane client")


def test_without_traffic_nothing_advances_and_the_step_ends_inconclusive(site: Site) -> None:
    """HOLD no_data until max_step, then a person decides; the weight is that of the start."""
    g = site.gateway
    g.run_plan(**{**FAST, "max_step_s": 6}, steps=[10, 100])
    wait_until(lambda: reason(g) == "no_data", "no data")
    assert g.status().weight == TEN_PERCENT
    wait_until(lambda: g.status().state == "held", "held")
    verdict = g.status().verdict
    assert verdict is not None
    assert (verdict.verdict, verdict.reason, g.status().weight) == ("INCONCLUSIVE", "stuck", TEN_PERCENT)
    assert kinds(g) == ["start", "validated", "step", "inconclusive"]


def test_beside_a_baseline_that_hangs_a_good_candidate_does_not_advance(tmp_path: Path) -> None:
    """The candidate answers everything well, the baseline nothing: there is no control, so no step is passed."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as good:
        options = {"arms": {
            "baseline": {"name": "gpu", "url": baseline.url, "timeouts": {"first_byte_s": 2}},
            "candidate": {"name": "tpu", "url": good.url},
        }}  # fmt: skip
        gateway = GatewayProcess(tmp_path, baseline.url, good.url, options)
        with gateway as g, SteadyLoad(g.data_url, clients=24, rate=96):
            baseline.delay_s = 3600.0
            g.run_plan(**{**FAST, **WITHOUT_PARITY, "max_step_s": 11}, steps=[50, 100])
            wait_until(lambda: g.status().state == "held", "held")
            verdict = g.status().verdict
            assert verdict is not None
            assert (verdict.verdict, verdict.reason, g.status().weight) == ("INCONCLUSIVE", "stuck", 5000)
            assert events(g) > FAST["min_events"]
            assert (candidate(g).failed, candidate(g).unavailable) == (0, 0)
            assert any("in which the baseline itself was beyond the limit" in text for text in verdict.missing)
            assert "advance" not in kinds(g)


def test_an_outage_of_both_arms_is_held_and_over_when_they_are_back(site: Site) -> None:
    """Nothing could be failed over, so no arm is blamed: HOLD shared_outage at the same weight, then on."""
    g = site.gateway
    with SteadyLoad(g.data_url) as load:
        g.run_plan(**STAYS)
        g.wait_judging()
        outage = [False]
        for arm in (site.baseline, site.candidate):
            arm.answers = lambda text: 500 if outage[0] else 200
        outage[0] = True
        wait_until(lambda: reason(g) == "shared_outage", "a shared outage")
        wait_for_time(g, g.status().at + 4)
        assert (reason(g), g.status().state, g.status().weight) == ("shared_outage", "stepping", TEN_PERCENT)
        outage[0] = False
        wait_until(lambda: reason(g) not in ("", "shared_outage"), "the outage is over")
        wait_for_time(g, g.status().at + 4)
        assert (g.status().state, g.status().weight) == ("stepping", TEN_PERCENT)
    assert set(load.statuses) == {200, 500}


def test_an_outage_that_the_baseline_sometimes_survives_is_the_candidates(site: Site) -> None:
    """Both arms are sick, but requests were failed over: the candidate's failures load the baseline, so it goes."""
    g = site.gateway
    with SteadyLoad(g.data_url) as load:
        g.run_plan(**{**STAYS, "steps": [50, 100]})
        g.wait_judging()
        site.baseline.answers = lambda text: 200 if int(text.split()[-1]) % 5 == 0 else 500
        site.candidate.answers = lambda text: 500
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
    run = run_of(g)
    assert (run.metric, run.rule, run.decided_weight) == ("error", "breaker", 5000)
    assert set(load.statuses) == {200, 500}


def test_a_judge_that_raises_is_a_hold_that_can_be_seen_and_rolled_back(tmp_path: Path) -> None:
    """Nothing advances while it raises, whatever the evidence; mended it goes on; rollback by hand works all along."""
    broken = tmp_path / "broken"
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as good,
        GatewayProcess(
            tmp_path, baseline.url, good.url, module="fakes.faulty_gateway", environment=environment(judge=broken)
        ) as g,
        SteadyLoad(g.data_url) as load,
    ):
        broken.touch()
        g.run_plan(**FAST, steps=[10, 50, 100])
        wait_until(lambda: reason(g) == "judge_failed", "the judge failed")
        wait_for_time(g, run_of(g).step_since + 8)
        verdict = g.status().verdict
        assert verdict is not None
        assert (verdict.verdict, verdict.reason, g.status().weight) == ("HOLD", "judge_failed", TEN_PERCENT)
        assert "RuntimeError" in verdict.text
        assert g.admin.get("/livez").status_code == 200
        broken.unlink()
        wait_until(lambda: g.status().weight == 5000, "the mended judge advances on evidence")
        broken.touch()
        wait_until(lambda: reason(g) == "judge_failed", "the judge failed again")
        result = g.command("rollback")
        assert (result.state, result.weight, result.acknowledged, result.missing) == ("rolled_back", 0, ["w0"], [])
        seen = len(good.seen)
        wait_until(lambda: len(baseline.seen) > 2 * 60, "traffic goes on")
        assert len(good.seen) == seen
    assert set(load.statuses) == {200}


def test_a_clock_that_is_set_back_advances_nothing(tmp_path: Path) -> None:
    """A running gateway does not notice. One that starts again in the past judges no second twice: it waits."""
    back, fresh = tmp_path / "back", tmp_path / "fresh"
    fresh.write_text("20")
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as good:
        g = GatewayProcess(
            tmp_path, baseline.url, good.url, module="fakes.faulty_gateway", environment=environment(clock=back)
        )
        with g:
            with SteadyLoad(g.data_url):
                g.run_plan(**{**FAST, "min_step_s": 6}, steps=[10, 100])
                g.wait_judging()
                at = g.status().at
                fresh.rename(back)
                assert at <= g.status().at < at + 5
                wait_for_time(g, run_of(g).step_since + 5)
            before = g.status()
            assert events(g) > FAST["min_events"]
            assert g.stop(signal.SIGKILL) == -signal.SIGKILL
        with g, SteadyLoad(g.data_url):

            def is_made_up() -> bool:
                """The judge goes on where it was last written down: at most two seconds and two windows ago."""
                now, counted = g.status(), events(g)
                if g.status().at >= before.at - 5:
                    return True
                assert (now.state, now.weight, counted) == ("stepping", TEN_PERCENT, 0)
                return False

            wait_until(is_made_up, "the clock is back where it was")
            wait_until(lambda: events(g) > FAST["min_events"], "the time is made up: judging goes on")


class Watched:
    """Keeps what a judge was given, window by window."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.windows: list[int] = []
        close_window = Judge.close_window

        def close(judge: Judge, window: int, cells: Any, **more: Any) -> None:
            close_window(judge, window, cells, **more)
            self.windows.append(window)

        monkeypatch.setattr(Judge, "close_window", close)


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_no_window_is_judged_twice_when_the_clock_steps_back(restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve seconds of wall time run again: they pass no step and are no evidence; afterwards the run goes on."""
    watched, store, stepped = Watched(monkeypatch), FakeStore(), [0.0]
    monkeypatch.setattr(FakeClock, "wall", lambda clock: clock.now + stepped[0])

    async def first(s: Stage) -> None:
        await started(s)
        await seconds(s, 14)
        await s.conductor.keep_checkpoint()
        stepped[0] = -12.0
        if not restart:
            await again(s)

    async def again(s: Stage) -> None:
        judged = list(watched.windows)
        assert judged
        await seconds(s, 11)
        assert watched.windows == judged
        assert (s.conductor.rollout.state, s.conductor.rollout.weight) == (State.STEPPING, TEN_PERCENT)
        await seconds(s, 30)
        assert len(watched.windows) > len(judged)
        assert s.conductor.rollout.weight == 10_000

    before = play(first, store)
    if restart:
        play(again, store, now=before.clock.monotonic())
    assert watched.windows == sorted(set(watched.windows))


def test_the_system_clock_of_a_process_never_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once; what is set afterwards moves nothing."""
    clock = SystemClock()
    at = clock.wall()
    monkeypatch.setattr(time, "time", lambda: at - 3600.0)
    assert at <= clock.wall() < at + 60.0
