"""One simulated run: a stream is drawn once, and every rule judges the same requests."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench import ours, peers
from bench.counts import Minutes, Traffic, bad_live, minutes, split, windows
from bench.faults import FAULTS, HEALTHY
from bench.ground import Ground, at_the_limit, with_room
from bench.outcome import Outcome
from bench.streams import KINDS, SIZE_SHARE, draw_stream, long_run
from gateway.core.plan import Plan

RATE: Final = 50.0
RUN_S: Final = 3600
COPIES_BP: Final = 500
NEXT_BP: Final = {100: 500, 500: 1000, 1000: 5000, 2500: 5000, 5000: 10_000}
"""The weight that passing leads to, by the present one."""

ASKED_FOR: Final = ("ours-cautious", "ours-strata", "ours-relative")
"""Options of a plan, with questions of their own: docs/benchmarks.md says which."""
OURS: Final = ("ours", "ours-no-copies", *ASKED_FOR)
PEERS: Final[dict[str, Callable[[Minutes], Outcome]]] = {
    "flagger-like": lambda seen: peers.flagger(seen, peers.Flagger()),
    "argo-like": lambda seen: peers.argo(seen, peers.Argo()),
    "kayenta-like": lambda seen: peers.kayenta(seen, peers.Kayenta()),
}
RULES: Final = (*OURS, *PEERS)
DEFAULT_RULES: Final = tuple(rule for rule in RULES if rule not in ASKED_FOR)
GROUNDS: Final = {"aa": with_room, "boundary": at_the_limit}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One stream and what is asked of it. grounds: names, of healthy arms; with ``fault`` the first alone is used."""

    kind: str
    seed: int
    run: int
    rules: tuple[str, ...]
    weights_bp: tuple[int, ...]
    grounds: tuple[str, ...] = ("aa",)
    fault: str = HEALTHY.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How one rule did on one stream. bad_live: bad live requests of the candidate up to the rollback, or in all."""

    kind: str
    ground: str
    fault: str
    weight_bp: int
    seed: int
    run: int
    rule: str
    outcome: Outcome
    bad_live: int


def play(task: Task) -> list[Trial]:
    """All trials of a task; the same for the same task, whatever ran before."""
    fault = FAULTS.get(task.fault, HEALTHY)
    kind = KINDS[task.kind]
    # Healthy arms and each fault have streams of their own, so that rows of the table are independent.
    rng = np.random.default_rng([task.seed, zlib.crc32(f"{kind.name}/{fault.name}".encode()), task.run])
    stream = draw_stream(kind, rng, seconds=RUN_S, rate=RATE)
    trials = []
    for name in task.grounds:
        ground = GROUNDS[name](long_run(kind))
        faulty = fault.change(stream, ground)
        parity_rate = ground.parity_rate if fault.parity_rate is None else fault.parity_rate
        for weight_bp in task.weights_bp:
            traffic = split(faulty, ground, weight_bp=weight_bp, copies_bp=COPIES_BP, parity_rate=parity_rate)
            for rule, outcome in _judged(traffic, ground, task.rules, weight_bp):
                until = RUN_S if outcome.rolled_back_at is None else outcome.rolled_back_at
                trials.append(
                    Trial(
                        kind=kind.name,
                        ground=ground.name,
                        fault=fault.name,
                        weight_bp=weight_bp,
                        seed=task.seed,
                        run=task.run,
                        rule=rule,
                        outcome=outcome,
                        bad_live=bad_live(traffic, until),
                    )
                )
    return trials


def _judged(traffic: Traffic, ground: Ground, rules: tuple[str, ...], weight_bp: int) -> Iterator[tuple[str, Outcome]]:
    if "ours" in rules:
        yield "ours", ours.judge(windows(traffic), _plan(ground, weight_bp, COPIES_BP))
    if "ours-no-copies" in rules:
        yield "ours-no-copies", ours.judge(windows(traffic.without_copies()), _plan(ground, weight_bp, 0))
    if "ours-cautious" in rules:
        yield "ours-cautious", ours.judge(windows(traffic), ours.cautious(_plan(ground, weight_bp, COPIES_BP)))
    if "ours-strata" in rules:
        by_size = [windows(traffic.of_size(size)) for size in range(len(SIZE_SHARE))]
        yield "ours-strata", ours.judge(windows(traffic), ours.stratified(_plan(ground, weight_bp, COPIES_BP)), by_size)
    if "ours-relative" in rules:
        yield "ours-relative", ours.judge(windows(traffic), ours.relative(_plan(ground, weight_bp, COPIES_BP)))
    asked = [rule for rule in PEERS if rule in rules]
    if asked:
        seen = minutes(traffic)
        yield from ((rule, PEERS[rule](seen)) for rule in asked)


def _plan(ground: Ground, weight_bp: int, copies_bp: int) -> Plan:
    return ours.plan(ground, weight_bp=weight_bp, next_bp=NEXT_BP[weight_bp], copies_bp=copies_bp)
