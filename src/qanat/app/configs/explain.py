"""`qanat config explain`: what a setting of a broker means, and where its value comes from."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import msgspec
from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.settings.aliases import ENVIRONMENT, FILE
from qanat.app.settings.catalogue import SETTINGS, Known
from qanat.app.settings.environment import variable_of
from qanat.app.settings.loading import assignment, load
from qanat.app.settings.source_value import is_secret
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.broker.settings.setting_kinds import Form, SettingKind
from qanat.broker.settings.topic_settings import TopicSetting
from qanat.model.setting_meanings import meanings
from qanat.model.spelling import did_you_mean

_COLUMNS = ("setting", "meaning", "type", "default", "value", "source", "change", "variable", "also")
_KINDS = {
    SettingKind.BOOLEAN: "true or false",
    SettingKind.STRING: "text",
    SettingKind.LIST: "list",
    SettingKind.INT: "whole number",
    SettingKind.LONG: "whole number",
    SettingKind.DOUBLE: "number",
}
_PLAIN = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def explain(
    name: str,
    /,
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    output: Output = "table",
) -> None:
    """Explain a setting of a broker: meaning, type, default, value and where that comes from.

        qanat config explain min.insync.replicas
        qanat config explain listeners --config /etc/qanat/broker.yaml

    The value is what a broker would have that is started with the same file, variables and flags; `qanat config get
    broker` asks one that runs.

    Parameters
    ----------
    name:
        The setting, by its own name or by another one that is understood (`log.retention.hours`, `NODE_ID`).
    config:
        Settings file of the broker.
    settings:
        Settings that the broker is started with, as often as needed: -X name=value.
    output:
        `table` for people, the others for programs.
    """
    known = _found(name)
    loaded = load([assignment(one) for one in settings or ()], config, os.environ)
    told = loaded.values.get(known.name)
    default = _default(known)
    row: Row = {
        "setting": known.name,
        "meaning": _meaning(known),
        "type": _type(known),
        "default": default,
        "value": default if told is None else told.shown,
        "source": "default" if told is None else told.origin,
        "change": "while the broker runs (qanat config set broker)" if known.name in DYNAMIC else "at the next start",
        "variable": variable_of(known.name),
        "also": ", ".join(_others(known.name)) or None,
    }
    if output != "table":
        print_rows([row], _COLUMNS, output)
        return
    for column in _COLUMNS:
        if row[column] is not None:
            print(f"{column:<9} {row[column]}")


def _found(name: str) -> Known:
    by_name = {row.name: row.setting for row in (*FILE, *ENVIRONMENT)}
    names = [name, name.lower().removeprefix("qanat_").replace("_", ".")]
    for one in names:
        real = by_name.get(one) or one
        if real in SETTINGS:
            return SETTINGS[real]
    if name in by_name:
        note = next(row.note for row in (*FILE, *ENVIRONMENT) if row.name == name)
        raise WrongArgumentError(f"{name} is accepted and has no effect: {note}")
    hint = did_you_mean(name, [*SETTINGS, *by_name], "docs/operating/settings.md lists all of them")
    raise WrongArgumentError(f"unknown setting {name!r}{hint}")


def _others(name: str) -> Iterator[str]:
    for row in (*FILE, *ENVIRONMENT):
        if row.setting == name:
            yield row.name if row.factor == 1 else f"{row.name} (times {row.factor:,})"


def _meaning(known: Known) -> str:
    if isinstance(known.owner, TopicSetting):
        return f"Default of the topic setting {known.owner.name}: {known.owner.meaning}"
    return meanings(known.owner)[known.name]


def _default(known: Known) -> str | None:
    if isinstance(known.owner, TopicSetting):
        return str(known.owner.default)
    field = next(one for one in msgspec.structs.fields(known.owner) if one.encode_name == known.name)
    value = getattr(known.owner(), field.name)
    if value is None or is_secret(known.name):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(known: Known) -> str:
    if isinstance(known.owner, TopicSetting):
        return _form(known.owner.form)
    field = next(one for one in msgspec.structs.fields(known.owner) if one.encode_name == known.name)
    return " or ".join(_words(field.type)) or "text"


def _form(form: Form) -> str:
    """The type of a topic setting in plain words.

    >>> _form(Form(SettingKind.INT, least=1))
    'whole number of at least 1'
    """
    if form.choices:
        return ("list of " if form.kind is SettingKind.LIST else "") + " or ".join(form.choices)
    least = "" if form.least is None else f" of at least {form.least:g}"
    return _KINDS[form.kind] + least + ("" if form.most is None else f" and at most {form.most:g}")


def _words(kind: object) -> Iterator[str]:
    """A type in plain words.

    >>> from qanat.model.settings import Positive
    >>> list(_words(Positive | None)), list(_words(Literal["a", "b"]))
    (['whole number of at least 1'], ['a', 'b'])
    """
    if get_origin(kind) is Annotated:
        plain, *marks = get_args(kind)
        bounds = [mark for mark in marks if isinstance(mark, msgspec.Meta)]
        words = _PLAIN.get(plain, str(plain))
        words += "".join(f" of at least {mark.ge}" for mark in bounds if mark.ge is not None)
        yield words + "".join(f" and at most {mark.le}" for mark in bounds if mark.le is not None)
    elif get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif isinstance(kind, type) and kind in _PLAIN:
        yield _PLAIN[kind]
    else:
        yield from (word for part in get_args(kind) if part is not types.NoneType for word in _words(part))
