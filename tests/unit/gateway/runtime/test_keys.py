"""Sticky keys from the request path through the channel to the verdict."""

from dataclasses import replace
from typing import Any

from fakes.control import PLAN, no_compare
from fakes.request_path import Stage, play

from gateway.adapters.channel import Frames, encode
from gateway.core.run import Run
from gateway.core.snapshot import Report, WindowKeys
from gateway.core.types import Role
from gateway.core.verdict import Judge
from gateway.runtime.analyst import MOST_KEYED, Analyst

STICKY: dict[str, Any] = {"key_header": "x-tenant", "weight": 5000}


def answered(stage: Stage, *keys: bytes | None) -> list[WindowKeys]:
    """Takes a request of each key and gives what was noted."""
    for key in keys:
        stage.take(key=key)
    return stage.books.current.take_keys()


def news(name: str, keys: list[WindowKeys], window: int = 1001) -> Report:
    """What the control process reads when a worker reports ``keys`` as of ``window``."""
    report = Report(
        name=name, version=1, epoch=1, at=window + 1.0, windows=[], latencies=[], open_since=None, breaker=(0.0, 0.0),
        seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
        keys=[replace(each, window=window) for each in keys],
    )  # fmt: skip
    (read,) = Frames().feed(encode(report))
    assert isinstance(read, Report)
    return read


def judging() -> Analyst:
    run = Run(run_id="r", plan=PLAN, plan_digest="d", started_at=1000.0, who="", reason="")
    analyst = Analyst(no_compare, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None, sticky=True)
    return analyst


def test_requests_of_a_sticky_key_are_noted_by_arm_without_the_key() -> None:
    """Each request once, whatever becomes of it; the key itself stands nowhere."""

    async def scenario() -> None:
        stage = Stage(**STICKY)
        tenants = [b"tenant-%d" % i for i in range(40)]
        noted = answered(stage, *tenants, *tenants, b"tenant-0")
        by_role = {each.role: each for each in noted}
        assert by_role.keys() == set(Role)
        assert sum(each.requests for each in noted) == 81
        assert len({key for each in noted for key in each.hashes}) == 40
        assert max(n for each in noted for _, n in each.heavy) == 3
        assert b"tenant" not in encode(news("w0", noted))
        assert stage.books.current.take_keys() == []

    play(scenario)


def test_the_same_key_has_another_hash_under_another_secret_and_epoch() -> None:
    """Nobody learns across runs whose requests they were."""

    async def scenario() -> None:
        hashes = {
            answered(Stage(**STICKY, **other), b"tenant")[0].hashes[0]
            for other in ({}, {"secret": b"another"}, {"epoch": 2})
        }
        assert len(hashes) == 3
        one, same = (answered(Stage(**STICKY), b"tenant")[0].hashes for _ in range(2))
        assert one == same

    play(scenario)


def test_a_request_without_the_header_is_a_key_of_its_own() -> None:
    """It is drawn by itself, so it counts by itself; the drawn id of these tests is always the same."""

    async def scenario() -> None:
        (noted,) = answered(Stage(key_header="x-tenant"), None, b"tenant")
        assert (noted.requests, len(noted.hashes)) == (2, 2)

    play(scenario)


def test_nothing_is_noted_without_a_key_header_or_of_what_is_not_judged() -> None:
    """No cost for the default; pinned requests and those outside a run are no evidence."""

    async def scenario() -> None:
        assert answered(Stage(), b"tenant", None) == []
        assert answered(Stage(**STICKY, judging=False), b"tenant") == []
        stage = Stage(**STICKY)
        stage.take(judged=False, key=b"tenant")
        assert stage.books.current.take_keys() == []

    play(scenario)


def test_what_is_noted_in_an_epoch_that_has_passed_is_still_to_be_reported() -> None:
    """The old tallies stay until it is."""

    async def scenario() -> None:
        stage = Stage(**STICKY)
        stage.take(key=b"tenant")
        stage.follow(**STICKY, epoch=2)
        (past,) = stage.books.past
        assert len(past.take_keys()) == 1

    play(scenario)


def test_from_two_workers_to_the_verdict_a_key_is_one_key() -> None:
    """Merged by hash: forty tenants seen by both workers are forty, and their requests add up."""

    async def scenario() -> None:
        analyst = judging()
        for name in ("w0", "w1"):
            analyst.attach(name)
        tenants = [b"tenant-%d" % i for i in range(40)]
        for name in ("w0", "w1"):
            analyst.report(news(name, answered(Stage(**STICKY), *tenants, b"tenant-7")))
        verdict = analyst.look(1002.0)
        assert verdict is not None
        (told,) = (text for text in verdict.missing if text.startswith("keys:"))
        assert told.startswith("keys: 40 distinct in this step, needs at least 200;")
        assert "the largest has 4 of 82 live requests (4.88 %)" in told

    play(scenario)


def test_late_and_early_keys_are_in_no_step() -> None:
    """As with events: before judging began, and of a window that is closed."""
    analyst = judging()
    seen = [WindowKeys(window=0, role=Role.BASELINE, requests=1, hashes=[1], heavy=[(1, 1)])]
    analyst.report(news("w0", seen, window=999))
    analyst.report(news("w0", seen, window=1002))
    analyst.look(1004.0)
    analyst.report(news("w0", seen, window=1002))
    verdict = analyst.look(1005.0)
    assert verdict is not None
    assert any("baseline 1, candidate 0; the largest has 1 of 1 live requests" in note for note in verdict.notes)


def test_windows_that_wait_for_a_judge_that_raises_keep_few_keys(monkeypatch: Any) -> None:
    """The newest keep theirs; a day of them would not fit."""
    analyst = judging()

    def raises(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Judge, "close_window", raises)
    seen = [WindowKeys(window=0, role=Role.BASELINE, requests=1, hashes=[1], heavy=[(1, 1)])]
    for window in range(1001, 1001 + 2 * MOST_KEYED):
        analyst.report(news("w0", seen, window=window))
        analyst.look(window + 1.0)
    assert sum(bool(window.keys) for window in analyst._unjudged) == MOST_KEYED


def test_a_window_that_is_given_to_the_judge_again_counts_its_keys_once(monkeypatch: Any) -> None:
    """It raised after they were booked: booked whole or not at all."""
    analyst = judging()
    close, failures = Judge._check_evidence, iter([True])

    def raises_once(judge: Judge, *args: Any) -> None:
        close(judge, *args)
        if next(failures, False):
            raise RuntimeError

    monkeypatch.setattr(Judge, "_check_evidence", raises_once)
    seen = [WindowKeys(window=0, role=Role.BASELINE, requests=3, hashes=[1, 2], heavy=[(1, 2), (2, 1)])]
    analyst.report(news("w0", seen))
    failed, verdict = analyst.look(1002.0), analyst.look(1003.0)
    assert failed is not None
    assert verdict is not None
    assert (failed.reason, verdict.reason == "judge_failed") == ("judge_failed", False)
    assert any("the largest has 2 of 3 live requests" in note for note in verdict.notes)
