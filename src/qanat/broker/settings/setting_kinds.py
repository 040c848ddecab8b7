"""Types of setting values, and how a wrong value is refused: Kafka's types, in Kafka's words.

`normalize` gives the one spelling in which the rest of the broker reads a value (no spaces around it, `true` and not
`TRUE`); clients see what they set.
"""

from __future__ import annotations

import re
from enum import IntEnum

from msgspec import Struct

from qanat.model.errors import InvalidSettingError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class SettingKind(IntEnum):
    """Types of settings; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


_BOUNDS: dict[SettingKind, tuple[int, int]] = {
    SettingKind.INT: (-INT_MAX - 1, INT_MAX),
    SettingKind.LONG: (-LONG_MAX - 1, LONG_MAX),
}
_REPLICAS = re.compile(r"\d+:\d+")


class Form(Struct, frozen=True):
    """A type with its bounds."""

    kind: SettingKind
    least: float | None = None
    most: float | None = None
    also: int | None = None
    """A single value outside the bounds that is allowed."""
    choices: tuple[str, ...] = ()
    is_replicas: bool = False
    """A list of `partition:broker`, or `*` for all."""

    def normalize(self, name: str, value: str) -> str:
        """The value as the broker reads it; raises `InvalidSettingError` where it does not have this form."""
        value = value.strip()
        match self.kind:
            case SettingKind.BOOLEAN:
                if value.lower() not in ("true", "false"):
                    raise _wrong(name, value, "Expected value to be either true or false")
                return value.lower()
            case SettingKind.STRING:
                self._choose(name, value)
                return value
            case SettingKind.LIST:
                return self._list(name, value)
            case SettingKind.INT | SettingKind.LONG | SettingKind.DOUBLE:
                self._bound(name, self._number(name, value))
                return value

    def _list(self, name: str, value: str) -> str:
        items = list(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))
        if self.choices and not items:
            raise _wrong(name, value, f"At least one is needed of: {', '.join(self.choices)}")
        for item in items:
            self._choose(name, item)
        if self.is_replicas and items != ["*"] and not all(_REPLICAS.fullmatch(item) for item in items):
            raise _wrong(
                name,
                f"[{', '.join(items)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
        return ",".join(items)

    def _choose(self, name: str, value: str) -> None:
        if self.choices and value not in self.choices:
            raise _wrong(name, value, f"String must be one of: {', '.join(self.choices)}")

    def _number(self, name: str, value: str) -> float:
        try:
            if self.kind is SettingKind.DOUBLE:
                return float(value)
            number = int("" if "_" in value else value)
            least, most = _BOUNDS[self.kind]
        except ValueError:
            raise _wrong(name, value, f"Not a number of type {self.kind.name}") from None
        if not least <= number <= most:
            raise _wrong(name, value, f"Not a number of type {self.kind.name}")
        return number

    def _bound(self, name: str, number: float) -> None:
        if self.also is not None:
            if number != self.also and not (self.least or 0) <= number <= (self.most or 0):
                bounds = f"between {self.least} and {self.most} or equal to {self.also}"
                raise _wrong(name, number, f"Value must be {bounds}")
        elif self.least is not None and not number >= self.least:
            raise _wrong(name, number, f"Value must be at least {self.least}")
        elif self.most is not None and not number <= self.most:
            raise _wrong(name, number, f"Value must be no more than {self.most}")


def _wrong(name: str, value: object, reason: str) -> InvalidSettingError:
    return InvalidSettingError(f"Invalid value {value} for configuration {name}: {reason}")
