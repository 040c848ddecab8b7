"""Settings under Kafka's names: the base of every package's settings.

A package declares one frozen struct per kind of settings; each field's name is
Kafka's with underscores for dots, and the string under it is its meaning.
`parse` takes Kafka's spelling, strings included, and rejects unknown names with one
clear sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
OrUnlimited = Annotated[int, Meta(ge=-1)]
Ratio = Annotated[float, Meta(ge=0.0, le=1.0)]


def _dotted(name: str) -> str:
    return name.replace("_", ".")


class Settings(msgspec.Struct, frozen=True, kw_only=True, dict=True, rename=_dotted, forbid_unknown_fields=True):
    """Base of a package's settings struct; derived values may be a `cached_property`."""

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Settings from Kafka's names; raises `InvalidSettingError` naming the fault and the nearest valid name."""
        known = cls.__struct_encode_fields__
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known, f"known are {', '.join(known)}")
                raise InvalidSettingError(f"unknown setting {name!r}{hint}")
        spelled = {name: cls._respelled(name, value) for name, value in values.items()}
        try:
            return msgspec.convert(spelled, cls, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidSettingError(f"bad setting: {_readable(str(error), values)}") from None

    @classmethod
    def check_one(cls, name: str, value: object) -> None:
        """Reject a value that is invalid whatever the other settings are; `parse` checks whether they fit together."""
        (kind,) = (field.type for field in msgspec.structs.fields(cls) if field.encode_name == name)
        try:
            msgspec.convert(cls._respelled(name, value), kind, strict=False)
        except msgspec.ValidationError as error:
            reason, values = f"{error} - at `$.{name}`", {name: value}
            raise InvalidSettingError(f"bad setting: {_readable(reason, values)}") from None

    @classmethod
    def _respelled(cls, name: str, value: object) -> object:
        """One spelling for values that Kafka accepts in several."""
        return value


def _readable(problem: str, values: Mapping[str, object]) -> str:
    """Translate msgspec's message, which names places in its own notation (`$.a.b`), to the setting and its value."""
    reason, _, where = problem.partition(" - at `$.")
    name = where.rstrip("`")
    return f"{name} = {values[name]!r}: {_expected(reason)}" if name in values else problem


_PLAIN = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


def _expected(reason: str) -> str:
    """The expected type in plain words: msgspec says "Expected `int` >= 1" and "Expected `int`, got `str`"."""
    parts = reason.replace("`", " ").split()
    if parts[0] != "Expected":
        return f"{reason[0].lower()}{reason[1:]}"
    kind = _PLAIN.get(parts[1].rstrip(","), parts[1].rstrip(","))
    match parts[2:]:
        case [">=", bound]:
            return f"{kind} of at least {bound} is expected"
        case ["<=", bound]:
            return f"{kind} of at most {bound} is expected"
        case _:
            return f"{kind} is expected"
