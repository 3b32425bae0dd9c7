"""``canary-server plan``: what the configured catalogue costs for given lengths, and a better one.

Nothing is loaded, compiled or served; the server may run meanwhile.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from server.adapters.lengths import LengthsRefused, read_traffic
from server.adapters.worker.record import latest, read_report
from server.config import ConfigRefused, Settings, load
from server.core.catalog import MAX_BUCKETS, Catalogue
from server.core.pricing import Group, Measured, Price, price
from server.core.suggest import Widths, best_widths, padding_of

EXIT_USAGE = 2
# Of the sizes that are not served; the rest is counted.
SHOWN = 5
# Less is within what another sample of the same traffic would give.
WORTHWHILE = 0.001


@dataclass(frozen=True, slots=True)
class Suggestion:
    """``present``: padding of the declared widths; ``widths``: the best as many; ``fewer``: the fewest as good as now.

    ``table`` has the best padding for each number of widths.
    """

    present: float | None
    widths: Widths | None
    fewer: Widths | None
    table: tuple[Widths, ...]


def run(words: list[str]) -> int:
    """Exit codes: 0 priced, 2 configuration, lengths, report or usage refused."""
    given = _parser().parse_args(words)
    try:
        settings = load(given.config, given.device)
        catalogue = settings.shapes()
        traffic = read_traffic(given.lengths, catalogue.names)
        measured, origin = _measured(settings, given.report)
    except ConfigRefused as refused:
        return _refused(refused.problems)
    except LengthsRefused as refused:
        return _refused(str(refused).splitlines())
    found = price(catalogue, traffic, measured)
    suggestion = _suggestion(catalogue, traffic, most=given.widths, longest=given.longest, step=given.step)
    if given.json:
        print(json.dumps({"catalogue": str(catalogue), **asdict(found), "measured_by": origin,
                          "suggestion": None if suggestion is None else asdict(suggestion)}))  # fmt: skip
    else:
        print("\n".join(_text(catalogue, traffic, found, origin, suggestion)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="canary-server plan",
        description="Price the catalogue of a configuration on given lengths, and suggest a better one.",
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="YAML, kind: Server")
    parser.add_argument("--lengths", type=Path, required=True, metavar="FILE", help="raw or a histogram, .json or .csv")
    parser.add_argument("--device", help="in place of the file's device")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="a ready server's /livez body (default: the record in cache_dir)",
    )
    parser.add_argument("--widths", type=_count, metavar="K", help="to suggest (default: as many as declared)")
    parser.add_argument("--longest", type=_count, metavar="N", help="to be served (default: the longest declared)")
    parser.add_argument("--step", type=_count, default=1, metavar="N", help="widths are multiples of it (default 1)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 2**20:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {2**20}")


def _refused(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"canary-server plan: {problem}", file=sys.stderr)
    return EXIT_USAGE


def _measured(settings: Settings, report: Path | None) -> tuple[dict[str, Measured], str]:
    """By bucket, and where it is from. Raises ConfigRefused for a report that was named and cannot be read."""
    try:
        if report is not None:
            return read_report(report), str(report)
    except OSError as error:
        raise ConfigRefused([f"--report: {report} is no health body and no record: {error}"]) from error
    found = latest(settings.cache_dir, settings.device, settings.dtype, settings.matmul_precision)
    if found is None or settings.model.sha256 not in (None, found.revision):
        return {}, ""
    return found.measured, str(found.path)


def _suggestion(
    catalogue: Catalogue, traffic: Sequence[Group], *, most: int | None, longest: int | None, step: int
) -> Suggestion | None:
    """None with several dimensions: which of them to divide is then a question of its own."""
    if len(catalogue.names) != 1:
        return None
    rows: Counter[int] = Counter()
    for group in traffic:
        rows[group.sizes[0]] += group.rows * group.count
    declared = catalogue.lengths
    wanted = min(most or len(declared), MAX_BUCKETS)
    table = best_widths(rows, longest or catalogue.max_length, max(wanted, len(declared)), step)
    present = padding_of(rows, declared)
    fewer = next((each for each in table if present is not None and each.padding <= present), None)
    return Suggestion(
        present=present,
        widths=table[min(wanted, len(table)) - 1] if table else None,
        fewer=fewer if fewer is not None and len(fewer.widths) < len(declared) else None,
        table=tuple(table),
    )


def _text(
    catalogue: Catalogue, traffic: Sequence[Group], found: Price, origin: str, suggestion: Suggestion | None
) -> list[str]:
    rows = sum(group.rows * group.count for group in traffic)
    return [
        f"Catalogue  {catalogue}: {found.programs} programs",
        f"Traffic    {found.requests:,} requests, {rows:,} rows",
        f"Served     {found.served:,} of {found.requests:,} requests ({_share(found.served / found.requests)})",
        *_not_served(catalogue.names, found.refused),
        "",
        "Full batches of     rows with a shape     padding in lanes     in order of arrival",
        *(
            _row(str(each.batch), _share(each.rows / rows), each.padding, each.arrival_padding)
            for each in found.batches
        ),
        _row("alone", "", found.alone_padding),
        "",
        f"Warm-up    compiled {_seconds(found.cold_s)}, from cache {_seconds(found.warm_s)}; measured are "
        f"{found.measured} of {len(catalogue.buckets())} declared programs{f' ({origin})' if origin else ''}",
        f"Memory     {_mebibytes(found.memory_bytes)}",
        "",
        *_suggested(catalogue, suggestion),
    ]


def _row(batch: str, rows: str, padding: float | None, *arrival: float | None) -> str:
    return f"{batch:>15}{rows:>22}{_share(padding):>21}" + "".join(f"{_share(each):>24}" for each in arrival)


def _not_served(names: Sequence[str], refused: Sequence[Group]) -> list[str]:
    lines = [
        f"           not served: {group.count:,} requests of {group.rows} rows, "
        + ", ".join(f"{name} {size}" for name, size in zip(names, group.sizes, strict=True))
        for group in refused[:SHOWN]
    ]
    rest = sum(group.count for group in refused[SHOWN:])
    return [*lines, f"           not served: {rest:,} more"] if rest else lines


def _suggested(catalogue: Catalogue, suggestion: Suggestion | None) -> list[str]:
    if suggestion is None:
        return ["Suggested  nothing: only the widths of a single dimension are tried"]
    if suggestion.widths is None or suggestion.present is None:
        return ["Suggested  nothing: no length is within the longest that is to be served"]
    name, now = catalogue.names[0], suggestion.present
    lines = []
    best = suggestion.widths
    if best.padding < now - WORTHWHILE or len(best.widths) != len(catalogue.lengths):
        lines.append(_line(name, best, now))
    if suggestion.fewer is not None:
        lines.append(_line(name, suggestion.fewer, now))
    if not lines:
        return [f"Suggested  the declared widths: none as many have less padding than their {_share(now)}"]
    if catalogue.exclude:
        lines.append("           exclude names sizes: look at it again")
    return ["Suggested  " + lines[0].lstrip(), *lines[1:]]


def _line(name: str, widths: Widths, now: float) -> str:
    return (
        f"           {name}: [{', '.join(map(str, widths.widths))}]   {len(widths.widths)} widths, "
        f"padding {_share(widths.padding)} instead of {_share(now)}"
    )


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:.1f} %"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} s"


def _mebibytes(value: int | None) -> str:
    return "not known" if value is None else f"{value / 2**20:.0f} MiB at most"
