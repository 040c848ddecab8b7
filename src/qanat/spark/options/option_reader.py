"""Option reader: options are taken one by one, so that unknown ones are noticed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from qanat.model.errors import QanatError
from qanat.spark.options.ignored_options import IGNORED, REFUSED

Value = TypeVar("Value")

SPARK_OPTIONS = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "mode", "__operationmetrics"})
"""Options that Spark itself adds."""
_NEAR = 0.7
"""The similarity from which an unknown option may be a misspelling of a missing one."""


class OptionError(QanatError):
    """An option that does not exist, is missing, or has a value that cannot be used."""


class OptionReader:
    """Options, taken one by one by name; those left at `finish` are unknown."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._left = {key.lower(): value for key, value in options.items()}
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name.lower(), None)

    def convert(self, name: str, meaning: str, convert: Callable[[str], Value], default: Value) -> Value:
        text = self.text(name)
        if text is None:
            return default
        try:
            return convert(text.strip())
        except (ValueError, KeyError):
            raise OptionError(f"option {name} is {text!r}, but must be {meaning}") from None

    def flag(self, name: str, default: bool) -> bool:
        return self.convert(name, "true or false", lambda text: {"true": True, "false": False}[text.lower()], default)

    def positive(self, name: str) -> int | None:
        return self.convert(name, "a whole number above 0", positive, None)

    def choice(self, name: str, choices: Mapping[str, Value], default: Value) -> Value:
        return self.convert(name, "one of " + ", ".join(choices), lambda text: choices[text.lower()], default)

    def duration(self, name: str) -> float | None:
        return self.convert(name, 'a duration such as "500ms", "10s" or "15m"', _seconds, None)

    def suggestion(self, *names: str, **others: str) -> str:
        """An unknown option that may be a misspelling of a missing one, as the end of an error message.

        `others` are names that other connectors use for the missing option.
        """
        wanted = {name.lower(): name for name in names} | others
        for key in sorted(self._left.keys() - SPARK_OPTIONS - IGNORED):
            near = get_close_matches(key, wanted, n=1, cutoff=_NEAR)
            if near:
                return f"; there is no option {key}, did you mean {wanted[near[0]]}?"
        return ""

    def finish(self) -> None:
        """Raise `OptionError` for the first unknown option."""
        for key in sorted(self._left.keys() - SPARK_OPTIONS - IGNORED):
            if key in REFUSED:
                raise OptionError(f"option {key} cannot be set: {REFUSED[key]}")
            near = get_close_matches(key, [name.lower() for name in self._known], n=1, cutoff=0.5)
            named = next((name for name in self._known if near and name.lower() == near[0]), None)
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
