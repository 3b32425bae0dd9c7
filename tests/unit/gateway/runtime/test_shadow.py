import pytest
from fakes.arms import FakeLeg
from fakes.request_path import HOLD, Stage, play

from gateway.core.classify import Loss
from gateway.core.types import Lane, Role

TO_CANDIDATE = {"weight": 0, "copies": 10_000}
TO_BASELINE = {"weight": 10_000, "reverse_copies": 10_000}


def copy_of(stage: Stage) -> FakeLeg:
    """The copy to the candidate."""
    return stage.leg(Role.CANDIDATE, Lane.COPY)


def test_a_copy_is_marked_and_unhurried() -> None:
    """It carries the shadow mark and the arm's own time, not the client's deadline."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take(deadline_s=2.0)
        copy = copy_of(stage)
        assert (copy.request.shadow, copy.request.deadline_s, copy.patience.total_s) == (True, None, 30.0)
        assert stage.leg(Role.BASELINE).request.shadow is False

    play(scenario)


def test_nothing_is_copied_before_the_request_is_written() -> None:
    """While the client's request waits for a connection there is no copy."""

    async def scenario() -> None:
        stage = Stage(connected=False, **TO_CANDIDATE)
        stage.take()
        assert stage.pool(Role.CANDIDATE, Lane.COPY).legs == []
        stage.leg(Role.BASELINE).write()
        assert len(stage.pool(Role.CANDIDATE, Lane.COPY).legs) == 1

    play(scenario)


@pytest.mark.parametrize("routing", [TO_CANDIDATE, TO_BASELINE])
def test_a_request_that_is_repeated_is_copied_once(routing: dict[str, int]) -> None:
    """Live request and copy each go out again on a fresh connection: one copy, and its room is given back."""

    async def scenario() -> None:
        stage = Stage(**routing)
        stage.take()
        served = Role.BASELINE if routing is TO_CANDIDATE else Role.CANDIDATE
        live, copy = stage.leg(served), stage.leg(served.other, Lane.COPY)
        live.write()
        copy.write()
        assert stage.pool(served.other, Lane.COPY).legs == [copy]
        live.answer(200)
        copy.answer(200)
        assert stage.shadow.copies.taken == stage.shadow.bytes.taken == 0
        assert len(stage.pairs) == 1
        assert stage.books.take_copies()[f"{served.other}:sent"] == 1

    play(scenario)


@pytest.mark.parametrize("copy_first", [False, True])
@pytest.mark.parametrize("routing", [TO_CANDIDATE, TO_BASELINE])
def test_two_answers_make_a_pair_in_either_order(copy_first: bool, routing: dict[str, int]) -> None:
    """Both sides are in it under their roles, whoever came first and whoever served."""

    async def scenario() -> None:
        stage = Stage(**routing)
        stage.take()
        served = Role.BASELINE if routing is TO_CANDIDATE else Role.CANDIDATE
        legs = [stage.leg(served), stage.leg(served.other, Lane.COPY)]
        for leg in reversed(legs) if copy_first else legs:
            assert stage.pairs == []
            leg.answer(200, b"live" if leg is legs[0] else b"copy")
        (pair,) = stage.pairs
        assert pair.served is served
        assert (pair.baseline.body, pair.candidate.body) == (
            (b"live", b"copy") if served is Role.BASELINE else (b"copy", b"live")
        )
        assert stage.shadow.copies.taken == stage.shadow.bytes.taken == 0
        assert stage.books.current.open_since is None

    play(scenario)


@pytest.mark.parametrize(
    ("copy", "live", "lane_copy"),
    [
        (503, 200, {"SHED": 1}),
        (429, 200, {"SHED": 1}),
        (500, 200, {"FAILED": 1, "FAILED_STATUS": 1}),
        (200, 500, {"OK": 1, "LAT95_N": 1}),
        (400, 500, {"REFUSED_UNCHECKED": 1}),
    ],
)
def test_a_failure_on_either_side_is_no_pair(copy: int, live: int, lane_copy: dict[str, int]) -> None:
    """The error metric has it already."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        copy_of(stage).answer(copy)
        stage.leg(Role.BASELINE).answer(live)
        assert stage.pairs == []
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == lane_copy
        assert stage.shadow.copies.taken == 0

    play(scenario)


def test_a_refusal_waits_for_the_other_answer_and_is_not_late() -> None:
    """Quick to refuse, the candidate is charged with the refusal and not with the baseline's time."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        copy_of(stage).answer(422)
        stage.clock.step(5.0)
        stage.books.current.sweep(stage.clock.monotonic())
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {}
        stage.leg(Role.BASELINE).answer(200)
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {"REFUSED": 1}
        assert [(p.baseline.status, p.candidate.status) for p in stage.pairs] == [(200, 422)]

    play(scenario)


@pytest.mark.parametrize("end", ["loss", "client", "stream"])
def test_a_live_answer_that_is_not_whole_is_no_pair(end: str) -> None:
    """The copy is evidence all the same."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        live = stage.take()
        if end == "loss":
            stage.leg(Role.BASELINE).lose()
        elif end == "client":
            live.client_gone()
        else:
            stage.leg(Role.BASELINE).head(200, length=HOLD + 1)
        copy_of(stage).answer(200)
        assert stage.pairs == []
        assert stage.counted(Role.CANDIDATE, Lane.COPY)["OK"] == 1
        assert stage.shadow.copies.taken == 0

    play(scenario)


@pytest.mark.parametrize("values", [{"encoded": True}, {"length": None}])
def test_an_answer_that_cannot_be_compared_is_no_pair(values: dict[str, bool]) -> None:
    """Compressed, or larger than what is kept."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        stage.leg(Role.BASELINE).answer(200)
        copy = copy_of(stage)
        copy.head(200, **values)  # type: ignore[arg-type]  # keyword arguments of head()
        copy.body(b"x" * (HOLD + (0 if "encoded" in values else 1)))
        copy.complete()
        assert stage.pairs == []
        assert stage.counted(Role.CANDIDATE, Lane.COPY)["OK"] == 1

    play(scenario)


def test_a_candidate_that_failed_the_client_makes_no_pair() -> None:
    """After a failover the copy's answer has nothing to be compared with."""

    async def scenario() -> None:
        stage = Stage(**TO_BASELINE)
        stage.take()
        stage.leg(Role.CANDIDATE).lose()
        stage.leg(Role.BASELINE).answer(200)
        stage.leg(Role.BASELINE, Lane.COPY).answer(200)
        assert stage.pairs == []
        assert stage.counted(Role.BASELINE, Lane.COPY) == {}

    play(scenario)


def test_a_shed_copy_to_the_baseline_is_counted_as_such() -> None:
    """It is the only thing that a copy to the baseline counts."""

    async def scenario() -> None:
        stage = Stage(**TO_BASELINE)
        stage.take()
        stage.leg(Role.CANDIDATE).answer(200)
        stage.leg(Role.BASELINE, Lane.COPY).answer(503)
        assert stage.counted(Role.BASELINE, Lane.COPY) == {"SHED": 1}

    play(scenario)


def test_copies_beyond_the_bounds_are_dropped_and_counted() -> None:
    """In number and in bytes; the client's requests notice nothing."""

    async def scenario() -> None:
        for bound, fate in (({"max_copies": 2}, "overflow"), ({"max_bytes": 2 * (2 * HOLD + 4)}, "overflow_bytes")):
            stage = Stage(**TO_CANDIDATE, **bound)
            for _ in range(3):
                stage.take()
            assert len(stage.pool(Role.BASELINE).legs) == 3
            assert len(stage.pool(Role.CANDIDATE, Lane.COPY).legs) == 2
            assert stage.books.take_copies() == {"candidate:sent": 2, f"candidate:{fate}": 1}

    play(scenario)


@pytest.mark.parametrize("values", [{"encoded": True, "length": 2}, {"length": HOLD + 1}, {"events": True}])
def test_an_answer_that_cannot_be_compared_still_has_a_status(values: dict[str, int]) -> None:
    """What the baseline took and the candidate refuses is refused, be the answer compressed or a stream."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        live = stage.leg(Role.BASELINE)
        live.head(200, **values)  # type: ignore[arg-type]  # keyword arguments of head()
        live.body(b"zz")
        live.complete()
        copy_of(stage).answer(422)
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {"REFUSED": 1}
        assert stage.pairs == []

    play(scenario)


@pytest.mark.parametrize(("streams", "counted"), [(True, {"CANCELLED": 1}), (False, {"FAILED": 1, "FAILED_BODY": 1})])
def test_the_copy_of_a_stream_ends_without_blame(streams: bool, counted: dict[str, int]) -> None:
    """A client's stream may go on for ever; a copy that did would keep its room, so it ends and nobody is charged."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        copy_of(stage).head(200, events=streams)
        copy_of(stage).lose(Loss.TOTAL_TIMEOUT)
        stage.leg(Role.BASELINE).answer(200)
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == counted
        assert stage.shadow.copies.taken == 0

    play(scenario)


def test_an_unready_baseline_gets_no_copy() -> None:
    """Comparison can do without it."""

    async def scenario() -> None:
        stage = Stage(**TO_BASELINE, baseline={"ready": False})
        stage.take()
        assert stage.pool(Role.BASELINE, Lane.COPY).legs == []
        assert stage.books.take_copies() == {"baseline:busy": 1}

    play(scenario)


def test_a_copy_never_waits_for_a_connection() -> None:
    """When every connection of the lane is busy there is no copy, rather than a late one."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE, candidate={"max_connections": 1})
        stage.take()
        stage.take()
        assert stage.books.take_copies() == {"candidate:sent": 1, "candidate:overflow": 1}

    play(scenario)


def test_a_stale_copy_was_never_there() -> None:
    """A copy that still waited when the epoch changed is dropped without a count."""

    async def scenario() -> None:
        stage = Stage(connected=False, **TO_CANDIDATE)
        stage.take()
        stage.leg(Role.BASELINE).write()
        tallies = stage.books.current
        stage.follow(epoch=2, version=2, **TO_CANDIDATE)
        copy_of(stage).write()
        assert copy_of(stage).fate == str(Loss.STALE)
        stage.leg(Role.BASELINE).answer(200)
        assert all(w.role is Role.BASELINE for w in tallies.take()[0])
        assert stage.shadow.copies.taken == 0

    play(scenario)


def test_a_request_written_after_the_epoch_changed_is_not_copied() -> None:
    """Its copy would be an old request on the candidate."""

    async def scenario() -> None:
        stage = Stage(connected=False, **TO_CANDIDATE)
        stage.take()
        stage.follow(epoch=2, version=2, **TO_CANDIDATE)
        stage.leg(Role.BASELINE).write()
        assert stage.pool(Role.CANDIDATE, Lane.COPY).legs == []

    play(scenario)


@pytest.mark.parametrize(
    ("live", "routing"),
    [
        (Role.BASELINE, {"weight": 0, "noise_copies": 10_000}),
        (Role.CANDIDATE, {"weight": 10_000, "reverse_copies": 10_000}),
    ],
)
def test_copies_to_the_baseline_end_with_the_epoch(live: Role, routing: dict[str, int]) -> None:
    """They serve comparison alone, and what they are compared with is void; whoever waits is served all the same."""

    async def scenario() -> None:
        stage = Stage(connected=False, **routing)
        taken = [stage.take(copy_first=True), stage.take()]
        copy = stage.leg(Role.BASELINE, Lane.COPY)
        stage.follow(epoch=2, version=2, weight=0, judging=False)
        copy.write()
        assert copy.fate == str(Loss.STALE)
        if live is Role.CANDIDATE:
            for leg in stage.pool(live).legs:
                leg.write()
        for leg in stage.pool(Role.BASELINE).legs:
            leg.write()
            leg.answer(200)
        assert [request.reply.done() for request in taken] == [True, True]
        assert stage.pool(Role.BASELINE, Lane.COPY).legs == [copy]
        assert stage.shadow.copies.taken == 0

    play(scenario)


def test_a_tripped_candidate_gets_no_copies_and_is_charged() -> None:
    """Taken out is unavailable, for copies as for live requests."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.routing.tripped = True
        stage.take()
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {"UNAVAILABLE": 1}
        assert stage.pool(Role.CANDIDATE, Lane.COPY).legs == []

    play(scenario)


def test_a_pair_for_which_there_is_no_room_is_counted() -> None:
    """The control process is busy; the comparison loses a pair and says so."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.room_for_pairs = False
        stage.take()
        stage.leg(Role.BASELINE).answer(200)
        copy_of(stage).answer(200)
        assert stage.books.take_copies() == {"candidate:sent": 1, "candidate:ok": 1, "candidate:pair_dropped": 1}

    play(scenario)


def test_shapes_that_copies_and_live_requests_met_are_counted_alike() -> None:
    """Both ran on the candidate's request path."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        copy = copy_of(stage)
        copy.head(200, compiles=1, compiled=("4x128",))
        copy.complete()
        stage.leg(Role.BASELINE).answer(200)
        stage.follow(version=2, **TO_BASELINE)
        stage.take()
        live = stage.leg(Role.CANDIDATE)
        live.head(200, compiles=1, compiled=("4x128", "1x128"))
        live.complete()
        assert stage.books.current.take_compiled() == {"4x128": 2, "1x128": 1}

    play(scenario)
