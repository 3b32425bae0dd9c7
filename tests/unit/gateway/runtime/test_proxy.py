import asyncio
import json

import pytest
from fakes.request_path import HOLD, Stage, play

from gateway.core.classify import Loss
from gateway.core.effects import FailReason, Instead
from gateway.core.types import Lane, Role
from gateway.runtime.call import Failure, StreamBroken, Streamed, Whole


def test_a_held_answer_is_given_whole() -> None:
    """The reply comes when the answer is complete, with the arm's name; latency runs from sending to then."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take()
        leg = stage.leg(Role.CANDIDATE)
        leg.head(200, length=4)
        leg.body(b"an")
        stage.clock.step(0.6)
        assert not live.reply.done()
        leg.body(b"sw")
        leg.complete()
        reply = live.reply.result()
        assert isinstance(reply, Whole)
        assert (reply.body, reply.arm, reply.instead) == (b"answ", "tpu", None)
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"OK": 1, "LAT95_N": 1, "LAT95_BAD": 1}
        assert live.is_done

    play(scenario)


def test_failover_sends_what_is_left_of_the_deadline() -> None:
    """The baseline is asked within the rest of the client's time, and told of it."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take(deadline_s=8.0)
        first = stage.leg(Role.CANDIDATE)
        assert (first.patience.first_byte_s, first.request.deadline_s) == (4.0, 8.0)
        stage.clock.step(3.0)
        first.lose(Loss.RESET)
        second = stage.leg(Role.BASELINE)
        assert (second.patience.total_s, second.request.deadline_s) == (5.0, 5.0)
        assert stage.books.current.open_since is not None
        second.answer(200, b"saved")
        assert stage.books.current.open_since is None
        reply = live.reply.result()
        assert isinstance(reply, Whole)
        assert (reply.body, reply.arm, reply.instead) == (b"saved", "gpu", Instead.FAILED)
        assert stage.counted(Role.BASELINE, Lane.LIVE) == {}
        assert stage.counted(Role.CANDIDATE, Lane.LIVE)["FAILED_OVER"] == 1
        assert stage.books.pulse.recent_failovers == 1

    play(scenario)


def test_a_failing_answer_is_discarded_not_cancelled() -> None:
    """The connection of a 5xx can be used again."""

    async def scenario() -> None:
        stage = Stage()
        stage.take()
        leg = stage.leg(Role.CANDIDATE)
        leg.head(503, length=2)
        assert leg.fate == "discarded"
        assert stage.leg(Role.BASELINE).fate is None

    play(scenario)


def test_what_outgrows_the_hold_streams() -> None:
    """What had been held comes first; the pieces after it go straight through, and a break is passed on."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take()
        leg = stage.leg(Role.CANDIDATE)
        leg.head(200)
        leg.body(b"a" * HOLD)
        assert not live.reply.done()
        leg.body(b"b")
        reply = live.reply.result()
        assert isinstance(reply, Streamed)
        leg.body(b"c")
        assert await reply.stream.read() == b"a" * HOLD + b"bc"
        leg.lose()
        with pytest.raises(StreamBroken):
            await reply.stream.read()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"FAILED": 1, "FAILED_BODY": 1}
        assert stage.pool(Role.BASELINE).legs == []

    play(scenario)


def test_a_client_that_leaves_ends_both_the_leg_and_the_reply() -> None:
    """Nobody waits any more: the arm is told, and the reply is None."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take()
        live.client_gone()
        assert stage.leg(Role.CANDIDATE).fate == "cancelled"
        assert live.reply.result() is None
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"CANCELLED": 1}
        live.client_gone()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"CANCELLED": 1}

    play(scenario)


def test_a_client_that_leaves_a_stream_breaks_it() -> None:
    """A reader of the stream does not wait for ever."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take()
        stage.leg(Role.CANDIDATE).head(200, events=True)
        reply = live.reply.result()
        assert isinstance(reply, Streamed)
        live.client_gone()
        with pytest.raises(StreamBroken):
            await reply.stream.read()

    play(scenario)


def test_too_large_a_body_is_the_clients_fault() -> None:
    """The arm is cancelled and charged nothing."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take(more=True)
        live.body_too_large()
        reply = live.reply.result()
        assert isinstance(reply, Failure)
        assert reply.reason is FailReason.BODY_TOO_LARGE
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"CANCELLED": 1, "NOT_REPLAYABLE": 1}

    play(scenario)


def test_a_body_that_streams_follows_the_request_to_the_baseline() -> None:
    """Nothing of it was written to the candidate when the epoch changed, so all of it goes to the other arm."""

    async def scenario() -> None:
        stage = Stage(connected=False)
        live = stage.take(more=True)
        stage.follow(epoch=2, version=2)
        stage.leg(Role.CANDIDATE).write()
        await live.feed(b"rest", last=True)
        assert stage.leg(Role.CANDIDATE).fed == []
        assert stage.leg(Role.BASELINE).fed == [b"rest"]

    play(scenario)


def test_old_requests_waiting_for_a_connection_go_to_the_baseline() -> None:
    """After the new epoch holds, what was not written counts nowhere for the candidate."""

    async def scenario() -> None:
        stage = Stage(connected=False)
        live = stage.take()
        stage.follow(epoch=2, version=2)
        stage.leg(Role.CANDIDATE).write()
        second = stage.leg(Role.BASELINE)
        second.write()
        second.answer(200, b"b")
        reply = live.reply.result()
        assert isinstance(reply, Whole)
        assert (reply.arm, reply.instead) == ("gpu", None)
        assert [line for line in stage.lines if "tpu" in line] == []
        assert stage.writes.to_candidate == 0
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {}

    play(scenario)


def test_a_body_that_streams_waits_for_the_exchange_to_hear_of_a_lost_leg() -> None:
    """A leg that has ended is asked once; its end is told in a later turn of the loop, which must come."""

    async def scenario() -> None:
        stage = Stage(connected=False)
        live = stage.take(more=True)
        first = stage.leg(Role.CANDIDATE)
        asked = 0

        async def ended(data: bytes, *, last: bool) -> bool:
            nonlocal asked
            asked += 1
            assert asked == 1, "asked again without a turn of the loop"
            return False

        first.feed = ended  # type: ignore[method-assign]  # as a pool does between a leg's end and the news of it
        stage.follow(epoch=2, version=2)
        asyncio.get_running_loop().call_soon(first.lose, Loss.STALE)
        await live.feed(b"rest", last=True)
        assert stage.leg(Role.BASELINE).fed == [b"rest"]

    play(scenario)


def test_what_waited_when_roles_were_swapped_is_answered_by_the_new_baseline() -> None:
    """Nothing more is written to the arm that was taken back; log and client name the arm that answered."""

    async def scenario() -> None:
        tpu, gpu = {"name": "tpu", "port": 2}, {"name": "gpu", "port": 1}
        stage = Stage(connected=False, weight=0, baseline=tpu, candidate=gpu)
        old = stage.pool(Role.BASELINE)
        live = stage.take()
        stage.follow(epoch=2, version=2, weight=0)
        await asyncio.sleep(0)
        (waited,) = old.legs
        assert waited.fate == str(Loss.STALE)
        again = stage.leg(Role.BASELINE)
        again.write()
        again.answer(200, b"b")
        reply = live.reply.result()
        assert isinstance(reply, Whole)
        assert (reply.arm, reply.instead) == ("gpu", None)
        assert [json.loads(line)["arm"] for line in stage.lines] == ["gpu"]
        assert stage.counted(Role.BASELINE, Lane.LIVE) == {}

    play(scenario)


def test_a_retry_on_an_arm_that_lost_its_role_is_not_written() -> None:
    """Its kept connection died after the swap: the fresh one asks which arm is the baseline now."""

    async def scenario() -> None:
        stage = Stage(weight=0, baseline={"name": "tpu", "port": 2}, candidate={"name": "gpu", "port": 1})
        stage.take()
        first = stage.leg(Role.BASELINE)
        stage.follow(epoch=2, version=2, weight=0)
        assert first.fate is None
        first.write()
        assert first.fate == str(Loss.STALE)
        assert len(stage.pool(Role.BASELINE).legs) == 1

    play(scenario)


def test_an_unready_baseline_is_asked_all_the_same() -> None:
    """A missed poll is no outage; what answers is passed on."""

    async def scenario() -> None:
        stage = Stage(weight=0, baseline={"ready": False})
        live = stage.take()
        stage.leg(Role.BASELINE).answer(200, b"here")
        reply = live.reply.result()
        assert isinstance(reply, Whole)
        assert reply.body == b"here"

    play(scenario)


def test_an_answer_that_streams_has_no_total_limit() -> None:
    """One that is held has."""

    async def scenario() -> None:
        stage = Stage()
        stage.take()
        leg = stage.leg(Role.CANDIDATE)
        leg.head(200)
        assert not leg.is_total_lifted
        leg.body(b"a" * (HOLD + 1))
        assert leg.is_total_lifted

    play(scenario)


@pytest.mark.parametrize("end", ["too slow", "answer"])
def test_a_slow_upload_is_not_the_arms(end: str) -> None:
    """Its latency runs from the last piece; a client that never sends it is charged to nobody."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take(more=True)
        stage.clock.step(50.0)
        stage.books.current.sweep(stage.clock.monotonic())
        if end == "answer":
            await live.feed(b"rest", last=True)
            stage.clock.step(0.1)
            stage.leg(Role.CANDIDATE).answer(200)
            counted = {"OK": 1, "LAT95_N": 1, "NOT_REPLAYABLE": 1}
        else:
            live.body_too_slow()
            reply = live.reply.result()
            assert isinstance(reply, Failure)
            assert reply.reason is FailReason.BODY_TOO_SLOW
            counted = {"CANCELLED": 1, "NOT_REPLAYABLE": 1}
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == counted
        stage.books.pulse.advance(stage.clock.monotonic())
        assert stage.books.pulse.take_seconds()[-1][3] == 0

    play(scenario)


def test_a_refusal_is_not_timed_while_it_is_checked() -> None:
    """The candidate refused at once; that the baseline took its time is not the candidate's latency."""

    async def scenario() -> None:
        stage = Stage()
        stage.take()
        stage.leg(Role.CANDIDATE).answer(422)
        stage.clock.step(5.0)
        stage.books.current.sweep(stage.clock.monotonic())
        stage.leg(Role.BASELINE).answer(200)
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"REFUSED": 1}

    play(scenario)


def test_every_write_is_noted_with_its_lane() -> None:
    """Live, pinned and copied requests are told apart."""

    async def scenario() -> None:
        stage = Stage(reverse_copies=10_000)
        stage.take()
        stage.take(judged=False)
        noted = [(line["arm"], line["lane"]) for line in map(json.loads, stage.lines)]
        assert noted == [("tpu", "live"), ("gpu", "copy"), ("gpu", "pinned")]

    play(scenario)


def test_the_key_decides_when_the_client_gives_one() -> None:
    """The same key meets the same arm; without one chance decides, drawn for each request."""

    async def scenario() -> None:
        stage = Stage(weight=5000)
        roles = {
            key: {stage.take(key=key).exchange.terms.assigned for _ in range(3)} for key in (b"a", b"b", b"c", b"d")
        }
        assert all(len(role) == 1 for role in roles.values())
        assert len(set.union(*roles.values())) == 2

    play(scenario)
