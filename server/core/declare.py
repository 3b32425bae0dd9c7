"""From the catalogue of a configuration, plain values as YAML gives them, to a Catalogue; every problem at once.

batch: [1, 4, 8]                                  a list
length: {powers_of_two: {from: 16, to: 256}}      16, 32, 64, 128, 256
width: {multiples: {of: 32, to: 128}}             32, 64, 96, 128 (``from`` names a later first one)
exclude:
  - {batch: 8, length: {from: 128}}               both: batch 8 with a length of 128 or more

A model whose inputs have no variable dimension but the batch has a catalogue of batch alone.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from server.core.catalog import MAX_COMBINATIONS, Catalogue, CatalogueRefused, Exclusion

MAX_DIMENSIONS: Final = 4
MAX_SIZE: Final = 2**20
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_FORMS: Final = "a list of sizes, {powers_of_two: {from, to}} or {multiples: {of, to}}"


def catalogue_of(given: object) -> Catalogue:
    """The strict catalogue of a section. Raises CatalogueRefused."""
    if not isinstance(given, Mapping):
        raise CatalogueRefused(
            [f"catalogue: got {given!r}, allowed is a mapping of batch and named dimensions, such as length"]
        )
    problems: list[str] = []
    names = [name for name in given if name not in ("batch", "exclude")]
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problems.append(f"catalogue: got dimension {name!r}, allowed are names of lower-case letters, digits and _")
    if len(names) > MAX_DIMENSIONS:
        problems.append(
            f"catalogue: got {len(names)} named dimensions beside batch, allowed are up to {MAX_DIMENSIONS}, "
            "such as length, or height and width"
        )
    if "batch" not in given:
        problems.append("catalogue.batch: is missing")
    sizes = {name: _sizes(f"catalogue.{name}", given[name], problems) for name in ("batch", *names) if name in given}
    exclude = _exclusions(given.get("exclude", []), ("batch", *names), problems)
    if problems:
        raise CatalogueRefused(problems)
    first, *others = [sizes[name] for name in names] or [(1,)]
    return Catalogue(batches=sizes["batch"], lengths=first, names=tuple(names), more=tuple(others), exclude=exclude)


def document_of(catalogue: Catalogue) -> dict[str, Any]:
    """The section that gives this catalogue again, sizes as lists."""
    # Without names there is one size more, which is 1.
    sizes = zip(catalogue.names, (catalogue.lengths, *catalogue.more), strict=False)
    section: dict[str, Any] = {"batch": list(catalogue.batches)} | {name: list(each) for name, each in sizes}
    if catalogue.exclude:
        section["exclude"] = [{name: _span(low, high) for name, low, high in each.bounds} for each in catalogue.exclude]
    return section


def _span(low: int, high: int | None) -> dict[str, int]:
    return {"from": low} if high is None else {"from": low, "to": high}


def _sizes(path: str, given: object, problems: list[str]) -> tuple[int, ...]:
    """The sizes of one dimension; what is wrong goes to ``problems``."""
    found: tuple[int, ...] | None = None
    match given:
        case list():
            if given and all(_is_size(each) for each in given) and given == sorted(set(given)):
                return tuple(given)
            problems.append(
                f"{path}: got {given}, allowed are rising positive integers, at least one, each at most {MAX_SIZE}"
            )
            return ()
        case {"powers_of_two": dict(bounds), **rest} if not rest:
            found = _powers_of_two(bounds)
            allowed = f"powers_of_two: {{from, to}}, both powers of two, from at most to, to at most {MAX_SIZE}"
        case {"multiples": dict(bounds), **rest} if not rest:
            found = _multiples(bounds)
            allowed = (
                f"multiples: {{of, to}} and from, to and from multiples of it, from at most to, to at most {MAX_SIZE}, "
                f"{MAX_COMBINATIONS} sizes at most"
            )
        case _:
            allowed = _FORMS
    if found is None:
        problems.append(f"{path}: got {_spelt(given)}, allowed is {allowed}")
        return ()
    return found


def _powers_of_two(bounds: Mapping[str, Any]) -> tuple[int, ...] | None:
    start, end = bounds.get("from"), bounds.get("to")
    if set(bounds) != {"from", "to"} or not (_is_size(start) and _is_size(end)) or start > end:
        return None
    if start & (start - 1) or end & (end - 1):
        return None
    return tuple(1 << power for power in range(start.bit_length() - 1, end.bit_length()))


def _multiples(bounds: Mapping[str, Any]) -> tuple[int, ...] | None:
    step, end = bounds.get("of"), bounds.get("to")
    start = bounds.get("from", step)
    if not {"of", "to"} <= set(bounds) <= {"of", "from", "to"}:
        return None
    if not (_is_size(step) and _is_size(start) and _is_size(end)):
        return None
    if start > end or start % step or end % step or (end - start) // step >= MAX_COMBINATIONS:
        return None
    return tuple(range(start, end + 1, step))


def _exclusions(given: object, names: tuple[str, ...], problems: list[str]) -> tuple[Exclusion, ...]:
    if not isinstance(given, list):
        problems.append(f"catalogue.exclude: got {_spelt(given)}, allowed is a list of {{dimension: size}}")
        return ()
    return tuple(
        found
        for at, each in enumerate(given)
        if (found := _exclusion(f"catalogue.exclude.{at}", each, names, problems)) is not None
    )


def _exclusion(path: str, given: object, names: tuple[str, ...], problems: list[str]) -> Exclusion | None:
    if not isinstance(given, Mapping) or not given or not set(given) <= set(names):
        problems.append(f"{path}: got {_spelt(given)}, allowed is a mapping with one or more of {', '.join(names)}")
        return None
    bounds: list[tuple[str, int, int | None]] = []
    for name, value in given.items():
        match value:
            case int() if _is_size(value):
                bounds.append((name, value, value))
            case {"from": low} if _is_size(low) and len(value) == 1:
                bounds.append((name, low, None))
            case {"to": high} if _is_size(high) and len(value) == 1:
                bounds.append((name, 1, high))
            case {"from": low, "to": high} if _is_size(low) and _is_size(high) and low <= high and len(value) == 2:
                bounds.append((name, low, high))
            case _:
                problems.append(f"{path}.{name}: got {_spelt(value)}, allowed is a size, {{from}}, {{to}} or both")
                return None
    return Exclusion(tuple(bounds))


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIZE


def _spelt(value: object) -> str:
    """As in the file, no longer than a line."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
