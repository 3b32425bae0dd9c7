"""A document's values by their type. Nothing is converted: ``"no"`` is no flag, ``2.0`` no whole number.

Every problem is noted under its path, with the value and what is allowed, and reading goes on, so that all are told.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

from gateway.core.compare.paths import Path, PathError, parse


class FormError(ValueError):
    """The form is refused. ``problems`` lists every fault: field, value, what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Form:
    """One object of a document, at ``at``; ``problems`` is shared with those around it."""

    def __init__(self, given: object, at: str, problems: list[str], known: Collection[str]) -> None:
        self._at = at
        self._given: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        self.problems = problems
        if not isinstance(given, Mapping):
            problems.append(f"{at or 'form'}: {_shown(given)} must be an object")
        for name in self._given:
            if name not in known:
                allowed = ", ".join(known) or "nothing more"
                problems.append(f"{self.path(str(name))}: unknown; {allowed} can be given")

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def path(self, name: str) -> str:
        return f"{self._at}.{name}" if self._at else name

    def refuse(self, name: str, allowed: str) -> None:
        """Notes that the value of ``name`` is not what is allowed."""
        value = _shown(self._given[name]) if name in self._given else "missing,"
        self.problems.append(f"{self.path(name)}: {value} must be {allowed}")

    def value(self, name: str) -> object:
        return self._given.get(name)

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name, default)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
            return default
        return value

    def number(self, name: str) -> float | None:
        """None where it was refused."""
        value = self._given.get(name)
        if type(value) is not int and not (isinstance(value, float) and math.isfinite(value)):
            self.refuse(name, "a number")
            return None
        assert isinstance(value, int | float)
        return value

    def whole(self, name: str) -> int | None:
        value = self._given.get(name)
        if type(value) is not int:
            self.refuse(name, "a whole number, without a point")
            return None
        return value

    def one_of(self, name: str, allowed: Collection[str]) -> str | None:
        value = self._given.get(name)
        if not isinstance(value, str) or value not in allowed:
            self.refuse(name, f"one of {', '.join(allowed)}")
            return None
        return value

    def list(self, name: str) -> list[Any]:
        """Empty where it is not given, or was refused."""
        value = self._given.get(name, [])
        if not isinstance(value, list | tuple):
            self.refuse(name, "a list")
            return []
        return list(value)

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.list(name)
        for number, value in enumerate(found):
            if not isinstance(value, str):
                self.problems.append(f"{self.path(name)}[{number}]: {_shown(value)} must be a text")
        return tuple(value for value in found if isinstance(value, str))

    def one_path(self, name: str) -> Path | None:
        value = self._given.get(name)
        if not isinstance(value, str):
            self.refuse(name, "a path, written like data[*].embedding")
            return None
        return self._parsed(self.path(name), value)

    def paths(self, name: str) -> tuple[Path, ...]:
        found = (self._parsed(f"{self.path(name)}", text) for text in self.texts(name))
        return tuple(path for path in found if path is not None)

    def _parsed(self, at: str, text: str) -> Path | None:
        try:
            return parse(text)
        except PathError as error:
            self.problems.append(f"{at}: {error}")
            return None


def _shown(value: object) -> str:
    return f"{value!r:.80}"
