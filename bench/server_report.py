"""What the rounds of the server's bench say: ratios within a round, their medians and spreads, tables."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.server_cast import DOCUMENTED, OURS, OURS_BF16, SORTED
from bench.server_rounds import LIMIT_SENTENCES, Ceiling, Row

BEST: Final = "best documented"
LOOP: Final = "tight loop"
FLOORS: Final = {BEST: 1.8, SORTED: 1.15, LOOP: 0.85}
GOALS: Final = {BEST: 2.2, SORTED: 1.25, LOOP: 0.9}
COSINES: Final = {OURS_BF16: 0.99}
FLOAT32_COSINE: Final = 0.999
BEGIN, END = "<!-- bench-server: begin -->", "<!-- bench-server: end -->"

Rounds = Sequence[Mapping[str, Row]]


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one ratio over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        found = list(values)
        return cls(statistics.median(found), min(found), max(found))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True, slots=True)
class Report:
    """``loops`` are the tight loops, ``layers`` the layer's CPU seconds a request; one a round."""

    rounds: Rounds
    loops: Sequence[Ceiling]
    layers: Sequence[Mapping[str, float]]

    def ratios(self) -> dict[str, Spread]:
        """Our throughput in relation to others', of those that were measured."""
        found = {
            LOOP: Spread.of(each[OURS].rate / loop.rate for each, loop in zip(self.rounds, self.loops, strict=True))
        }
        documented = [name for name in DOCUMENTED if name in self.rounds[0]]
        if documented:
            found[BEST] = Spread.of(
                each[OURS].rate / max(each[name].rate for name in documented) for each in self.rounds
            )
        if SORTED in self.rounds[0]:
            found[SORTED] = Spread.of(each[OURS].rate / each[SORTED].rate for each in self.rounds)
        return found

    def below(self) -> list[str]:
        """Floors that are not kept."""
        return [
            f"{name}: {ratio}, at least {FLOORS[name]}"
            for name, ratio in self.ratios().items()
            if ratio.median < FLOORS[name]
        ]

    def wrong(self) -> list[str]:
        """Servers that gave other answers than the model alone."""
        least = {name: min(each[name].cosine for each in self.rounds) for name in self.rounds[0]}
        return [
            f"{name}: an answer has cosine {cosine:.5f} to the model alone"
            for name, cosine in least.items()
            if cosine < COSINES.get(name, FLOAT32_COSINE)
        ]

    def document(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "limit_sentences": LIMIT_SENTENCES,
            "ratios": {name: asdict(ratio) for name, ratio in self.ratios().items()},
            "goals": GOALS,
            "floors": FLOORS,
            "below": self.below(),
            "wrong": self.wrong(),
            "rounds": [{name: asdict(row) for name, row in each.items()} for each in self.rounds],
            "tight_loops": [{"rate": loop.rate, "cpu_s": loop.cpu_s} for loop in self.loops],
            "layers": [dict(each) for each in self.layers],
        }

    def markdown(self) -> str:
        """Medians over the rounds, in brackets the smallest and the largest; no absolute rates."""
        lines = [
            f"| ours to | ratio of throughput ({len(self.rounds)} rounds) | goal | fails below |",
            "|---|---:|---:|---:|",
            *(f"| {name} | {ratio} | {GOALS[name]} | {FLOORS[name]} |" for name, ratio in self.ratios().items()),
            "",
            "| server | throughput / tight loop | the same by CPU time | p99 ms, connections | goodput at 2x "
            "| refused at 2x: p50, p99 ms | normal after s | smallest cosine | layer's CPU / Mosec's |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
            *(self._line(name) for name in self.rounds[0]),
        ]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        rows = [each[name] for each in self.rounds]

        def middle(of: Callable[[Row], float]) -> float:
            return statistics.median(map(of, rows))

        share = Spread.of(row.rate / loop.rate for row, loop in zip(rows, self.loops, strict=True))
        cpu = Spread.of(
            loop.cpu_s / row.cpu_s if row.cpu_s else 0.0 for row, loop in zip(rows, self.loops, strict=True)
        )
        busy = f"{middle(lambda row: row.p99_s) * 1000:.0f}, {middle(lambda row: row.lines):.0f}"
        usual, worst = middle(lambda row: row.refused_p50_s) * 1000, middle(lambda row: row.refused_p99_s) * 1000
        refused = f"{usual:.1f}, {worst:.0f}"
        back = [row.back_s for row in rows if row.back_s is not None]
        late = len(rows) - len(back)
        normal = f"not in {late} of {len(rows)}" if late else f"{statistics.median(back):.1f}"
        return (
            f"| {name} | {share} | {cpu} | {busy} | {Spread.of(row.goodput for row in rows)} "
            f"| {refused if any(row.refusals for row in rows) else 'none'} | {normal} "
            f"| {min(row.cosine for row in rows):.5f} | {self._layer(name)} |"
        )

    def _layer(self, name: str) -> str:
        both = [each[name] / each["mosec"] for each in self.layers if name in each and "mosec" in each]
        return str(Spread.of(both)) if both else ""


def write_between(page: Path, text: str) -> None:
    """Puts ``text`` between the page's markers. Raises ValueError when they are not there."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: has no {BEGIN} followed by {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
