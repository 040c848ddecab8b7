"""Pipelines that are written in Python: their settings as a table, from which `show`, `--help` and the checks come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from qanat.cluster.topic_names import name_problem
from qanat.spark.copying.inventory import OWN_TOPICS
from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.bundled.catalogue import Launch, Pipeline
from qanat.spark.pipelines.decoding import nearest
from qanat.spark.pipelines.document import PipelineError


@dataclass(frozen=True, slots=True)
class Setting:
    """What `--set name=value`, or `--name value`, may change."""

    name: str
    default: str
    meaning: str


def coded(
    name: str,
    meaning: str,
    about: str,
    settings: Sequence[Setting],
    check: Callable[[Mapping[str, str]], object],
    launch: Launch,
) -> Pipeline:
    """A pipeline of this package; `check` and `launch` are given every setting, defaults filled in."""
    defaults = {one.name: one.default for one in settings}

    def filled(given: Mapping[str, str]) -> dict[str, str]:
        for key in given:
            if key not in defaults:
                raise PipelineError(f"pipeline {name} has no setting {key}{nearest(key, defaults)}")
        return {**defaults, **{key: value.strip() for key, value in given.items()}}

    return Pipeline(
        name,
        meaning,
        defaults,
        _text(name, meaning, about, settings),
        lambda given: _done(check(filled(given))),
        lambda spark, given, how: launch(spark, filled(given), how),
        {one.name: one.meaning for one in settings},
        about.strip(),
    )


def _done(_: object) -> None:
    """What a check returns is of no interest."""


def _text(name: str, meaning: str, about: str, settings: Sequence[Setting]) -> str:
    lines = [f"name: {name}", f"meaning: {meaning}", ""]
    lines += [indent(about.strip(), "# ", lambda _: True), "", "settings:"]
    for one in settings:
        shown = f"  {one.name}: {one.default}".rstrip()
        lines.append(f"{shown:<30} # {one.meaning}")
    return "\n".join(lines) + "\n"


def chosen(settings: Mapping[str, str], *, is_needed: bool = True) -> Subscription:
    """The topics that `topics` and `pattern` say; what brokers and copies keep for themselves fits no pattern."""
    topics, pattern = settings["topics"], settings["pattern"]
    if topics and pattern:
        raise PipelineError("topics names what is meant and pattern describes it: give one of the two")
    if topics:
        names = tuple(dict.fromkeys(name.strip() for name in topics.split(",") if name.strip()))
        for name in names:
            if OWN_TOPICS.fullmatch(name):
                raise PipelineError(f"topic {name} is kept by brokers or copies for themselves: it is not to be copied")
        return Subscription(names=names)
    if not pattern and is_needed:
        raise PipelineError("nothing is chosen: give topics (names with commas) or pattern (a regular expression)")
    pattern = pattern or ".*"
    expression(pattern, "pattern")
    return Subscription(pattern=f"(?!(?:{OWN_TOPICS.pattern})$)(?:{pattern})")


def expression(text: str, what: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as fault:
        raise PipelineError(f"{what} {text!r} is no regular expression: {fault}") from None


@dataclass(frozen=True, slots=True)
class Naming:
    """What copies are called: some by name, the others with a prefix."""

    prefix: str = ""
    renamed: Mapping[str, str] | None = None

    def __call__(self, topic: str) -> str:
        return (self.renamed or {}).get(topic, f"{self.prefix}{topic}")

    @staticmethod
    def of(settings: Mapping[str, str]) -> Naming:
        """From `prefix` and `rename` (old=new, with commas)."""
        renamed: dict[str, str] = {}
        for pair in filter(None, (part.strip() for part in settings["rename"].split(","))):
            old, separator, new = (part.strip() for part in pair.partition("="))
            if not separator or not old or not new:
                raise PipelineError(f"rename {pair!r} should read old=new, several with commas")
            renamed[old] = new
        if len(set(renamed.values())) < len(renamed):
            raise PipelineError("rename gives two topics the same name: their records would be mixed")
        for name in (f"{settings['prefix']}x", *renamed.values()):
            if (fault := name_problem(name)) is not None:
                raise PipelineError(f"there can be no topic {name!r}: {fault}")
        return Naming(settings["prefix"], renamed)


def client_settings(path: str) -> dict[str, str]:
    """A file of settings as Kafka's clients name them, `name=value` a line; none, if there is no path."""
    if not path:
        return {}
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise PipelineError(f"client settings in {path}: {reason}") from None
    found: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if line[:1] in ("", "#", "!"):
            continue
        if not separator:
            raise PipelineError(f"client settings in {path}: {name!r} should read name=value")
        found[name.strip()] = value.strip()
    return found


def number(settings: Mapping[str, str], name: str) -> int:
    """A setting that is a number above 0."""
    text = settings[name]
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise PipelineError(f"{name} is {text!r}, but must be a whole number above 0")
    return int(text)


def choice(settings: Mapping[str, str], name: str, *choices: str) -> str:
    """A setting that is one of a few words."""
    if settings[name] not in choices:
        told = nearest(settings[name], list(choices))
        raise PipelineError(f"{name} is {settings[name]!r}, but must be {' or '.join(choices)}{told}")
    return settings[name]


def is_on(settings: Mapping[str, str], name: str) -> bool:
    return choice(settings, name, "true", "false") == "true"
