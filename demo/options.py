"""The command line of the demo."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.arms import DEFAULT, DEFAULT_BASELINE, DEFAULT_CANDIDATE, DEVICES, Arms, arms_on
from demo.scenarios import SCENARIOS, Scenario

ALL: Final = "all"
DEFAULT_CACHE: Final = Path(".cache/compile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One scenario. ``turn`` is its place among several, empty when it is the only one.

    ``weights`` is a sentence-transformers folder in place of the installed one.
    ``step_scale`` multiplies the step times of the demo preset; ``limit_s`` bounds the canary, warm-up apart.
    """

    scenario: Scenario
    arms: Arms = DEFAULT
    weights: Path | None = None
    turn: str = ""
    cache_dir: Path
    results: Path
    cold: bool = False
    seed: int = 1
    step_scale: float = 1.0
    warm_up_limit_s: float = 1200.0
    limit_s: float = 600.0


def parse(argv: Sequence[str] | None) -> list[Options]:
    """Options of each scenario to play, with absolute paths. Ends the process with code 2 on wrong usage."""
    parser = argparse.ArgumentParser(prog="canary-demo", description=__doc__)
    parser.add_argument("--scenario", choices=[*SCENARIOS, ALL], default="good", help="default %(default)s")
    parser.add_argument("--baseline", choices=DEVICES, default=DEFAULT_BASELINE, help="device (default %(default)s)")
    parser.add_argument("--candidate", choices=DEVICES, default=DEFAULT_CANDIDATE, help="device (default %(default)s)")
    parser.add_argument("--weights", type=Path, metavar="FOLDER", help="not the installed ones")
    parser.add_argument("--cache-dir", type=Path, default=DEFAULT_CACHE, help="compile caches (default %(default)s)")
    parser.add_argument("--cold", action="store_true", help="empty the compile caches first")
    parser.add_argument("--results", type=Path, default=Path("demo-results"), help="folder for results and logs")
    parser.add_argument("--seed", type=int, default=1, help="seed of the load")
    parser.add_argument("--step-scale", type=_positive, default=1.0, help="multiplies the time of each step")
    parser.add_argument("--warm-up-limit", type=_positive, default=1200.0, help="seconds (default %(default)s)")
    parser.add_argument("--limit", type=_positive, default=600.0, help="seconds for the canary (default %(default)s)")
    given = parser.parse_args(argv)
    names = list(SCENARIOS) if given.scenario == ALL else [given.scenario]
    return [
        Options(
            scenario=SCENARIOS[name],
            arms=arms_on(given.baseline, given.candidate),
            weights=given.weights.resolve() if given.weights is not None else None,
            turn=f"{number} of {len(names)}" if len(names) > 1 else "",
            cache_dir=given.cache_dir.resolve(),
            results=given.results.resolve() / name,
            cold=given.cold and number == 1,
            seed=given.seed,
            step_scale=given.step_scale,
            warm_up_limit_s=given.warm_up_limit,
            limit_s=given.limit,
        )
        for number, name in enumerate(names, start=1)
    ]


def _positive(text: str) -> float:
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return number
