"""Options as they were given, taken out one by one, so that one that nobody takes is noticed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from qanat.model.errors import QanatError
from qanat.spark.options.ignored_options import NOT_TO_BE_SET, NOTHING_TO_TURN

Value = TypeVar("Value")

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "mode", "__operationmetrics"})
"""What Spark itself puts among the options."""
_NEAR = 0.7
"""From here on an option may have been meant for another that is missing."""


class OptionError(QanatError):
    """An option that does not exist, is missing, or has a value that cannot be used."""


class Given:
    """Options as they were given, taken out one by one; what nobody took does not exist."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._left = {key.lower(): value for key, value in options.items()}
        self._asked: list[str] = []

    def text(self, name: str) -> str | None:
        self._asked.append(name)
        return self._left.pop(name.lower(), None)

    def convert(self, name: str, meaning: str, convert: Callable[[str], Value], default: Value) -> Value:
        given = self.text(name)
        if given is None:
            return default
        try:
            return convert(given.strip())
        except (ValueError, KeyError):
            raise OptionError(f"option {name} is {given!r}, but must be {meaning}") from None

    def flag(self, name: str, default: bool) -> bool:
        return self.convert(name, "true or false", lambda text: {"true": True, "false": False}[text.lower()], default)

    def positive(self, name: str) -> int | None:
        return self.convert(name, "a whole number above 0", positive, None)

    def choice(self, name: str, choices: Mapping[str, Value], default: Value) -> Value:
        return self.convert(name, "one of " + ", ".join(choices), lambda text: choices[text.lower()], default)

    def duration(self, name: str, default: float) -> float:
        return self.convert(name, 'a duration such as "500ms", "10s" or "15m"', _seconds, default)

    def meant(self, *names: str, **others: str) -> str:
        """Which of the options that nobody has taken was meant for one that is missing, as the end of a complaint.

        `others` are names that are used elsewhere for what is called otherwise here.
        """
        wanted = {name.lower(): name for name in names} | others
        for key in sorted(self._left.keys() - SPARKS_OWN - NOTHING_TO_TURN):
            near = get_close_matches(key, wanted, n=1, cutoff=_NEAR)
            if near:
                return f"; there is no option {key}, did you mean {wanted[near[0]]}?"
        return ""

    def finish(self) -> None:
        """Complain about what is left."""
        for key in sorted(self._left.keys() - SPARKS_OWN - NOTHING_TO_TURN):
            if key in NOT_TO_BE_SET:
                raise OptionError(f"option {key} cannot be set: {NOT_TO_BE_SET[key]}")
            near = get_close_matches(key, [name.lower() for name in self._asked], n=1, cutoff=0.5)
            named = next((name for name in self._asked if near and name.lower() == near[0]), None)
            raise OptionError(f"there is no option {key}" + (f"; did you mean {named}?" if named else ""))


def positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError(text)
    return number


def not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


A_SIZE = 'a number of bytes such as 1048576, "64k" or "1g"'
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def size(text: str) -> int:
    number, unit = _measure(text)
    return positive(number) * _SIZES[unit if unit in _SIZES else unit.removesuffix("ib").removesuffix("b")]


def _seconds(text: str) -> float:
    number, unit = _measure(text)
    return int(number) * _SECONDS[unit]


def _measure(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if found is None:
        raise ValueError(text)
    return found[1], found[2]
