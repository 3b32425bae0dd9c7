"""Reads what traffic looks like: raw lengths or a histogram, JSON or CSV.

JSON  [5, 7, 7]   {"5": 120, "7": 80}   [{"length": 5, "rows": 2, "count": 120}]
CSV   one length a line; length,count; or a header with the dimensions' names and, if wanted, rows and count
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from server.core.pricing import Group

MAX_FILE: Final = 64 * 1024 * 1024
MAX_VALUE: Final = 2**40
MAX_PROBLEMS: Final = 5


class LengthsRefused(Exception):
    """The file cannot be used; the text names file, place and value."""


def read_traffic(path: Path, names: Sequence[str]) -> list[Group]:
    """The requests of a file, equal ones together. ``names`` are the catalogue's dimensions. Raises LengthsRefused."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise LengthsRefused(f"{path}: got {path.stat().st_size} bytes, at most {MAX_FILE} are allowed")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LengthsRefused(f"{path}: cannot be read: {error}") from error
    match path.suffix.lower():
        case ".json":
            entries = _json(path, text, names)
        case ".csv":
            entries = _csv(path, text, names)
        case suffix:
            raise LengthsRefused(f"{path}: got a file of kind {suffix or 'none'}, allowed are .json and .csv")
    return _grouped(path, entries, names)


def _json(path: Path, text: str, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LengthsRefused(f"{path}: is no JSON: {error}") from error
    match given:
        case dict():
            return ((f"{key!r}", {_only(path, names): key, "count": count}) for key, count in given.items())
        case list():
            return (
                (f"entry {at}", each if isinstance(each, dict) else {_only(path, names): each})
                for at, each in enumerate(given)
            )
        case _:
            raise LengthsRefused(
                f"{path}: got {type(given).__name__}, allowed are a list of lengths, a list of objects with "
                f"{', '.join(names)}, rows and count, or an object of length: count"
            )


def _csv(path: Path, text: str, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        lines = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), start=1) if any(row)]
    except csv.Error as error:
        raise LengthsRefused(f"{path}: is no CSV: {error}") from error
    if not lines:
        return
    columns = [name.strip() for name in lines[0][1]]
    if columns[0].isdigit():
        columns = [_only(path, names), "count"][: len(columns)]
    else:
        lines = lines[1:]
    for number, row in lines:
        if len(row) != len(columns):
            raise LengthsRefused(f"{path}: line {number} has {len(row)} columns, allowed are {', '.join(columns)}")
        yield f"line {number}", dict(zip(columns, (value.strip() for value in row), strict=True))


def _only(path: Path, names: Sequence[str]) -> str:
    if len(names) != 1:
        raise LengthsRefused(
            f"{path}: got plain numbers, allowed are entries with {', '.join(names) or 'rows'}: the catalogue names "
            f"{'all of them' if names else 'no size'}"
        )
    return names[0]


def _grouped(path: Path, entries: Iterable[tuple[str, Mapping[str, Any]]], names: Sequence[str]) -> list[Group]:
    counts: Counter[tuple[int, tuple[int, ...]]] = Counter()
    problems: list[str] = []
    for where, entry in entries:
        unknown = sorted(set(entry) - {*names, "rows", "count"})
        missing = [name for name in names if name not in entry]
        if unknown or missing:
            raise LengthsRefused(
                f"{path}: {where} has {', '.join(map(str, entry))}, needed are {', '.join(names) or 'none'}, "
                "allowed are rows and count besides"
            )
        values = {name: _number(entry.get(name, 1)) for name in (*names, "rows", "count")}
        wrong = [name for name, value in values.items() if value is None]
        if wrong:
            problems.append(f"{where}: {wrong[0]} is {entry[wrong[0]]!r}, allowed are whole numbers from 1")
            if len(problems) == MAX_PROBLEMS:
                break
            continue
        known = {name: value for name, value in values.items() if value is not None}
        counts[known["rows"], tuple(known[name] for name in names) or (1,)] += known["count"]
    if problems:
        raise LengthsRefused("\n".join(f"{path}: {problem}" for problem in problems))
    if not counts:
        raise LengthsRefused(f"{path}: holds no lengths, at least one is needed")
    return [Group(rows, sizes, count) for (rows, sizes), count in sorted(counts.items())]


def _number(value: object) -> int | None:
    """A whole number from 1, also as CSV and the keys of JSON spell it."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 13:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_VALUE:
        return value
    return None
