"""Pipelines written in Python: `show`, `--help` and checks come from a table of their settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from qanat.model.topic_names import name_problem
from qanat.spark.copying.inventory import OWN_TOPICS
from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.document import PipelineError, nearest
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.pipeline import Launch, Pipeline


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a pipeline: `--set name=value`, or `--name value`."""

    name: str
    default: str
    meaning: str


def python_pipeline(
    name: str,
    meaning: str,
    about: str,
    settings: Sequence[Setting],
    check: Callable[[Mapping[str, str]], object],
    launch: Launch,
) -> Pipeline:
    """A pipeline; `check` and `launch` get every setting, with defaults filled in."""
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
        lambda spark, given, run_options: launch(spark, filled(given), run_options),
        {one.name: one.meaning for one in settings},
        about.strip(),
    )


def _done(_: object) -> None:
    """Drop the result of a check."""


def _text(name: str, meaning: str, about: str, settings: Sequence[Setting]) -> str:
    lines = [f"name: {name}", f"meaning: {meaning}", ""]
    lines += [indent(about.strip(), "# ", lambda _: True), "", "settings:"]
    for one in settings:
        shown = f"  {one.name}: {one.default}".rstrip()
        lines.append(f"{shown:<30} # {one.meaning}")
    return "\n".join(lines) + "\n"


def chosen(settings: Mapping[str, str], *, is_needed: bool = True) -> Subscription:
    """The topics of `topics` and `pattern`; internal topics of brokers and copies match no pattern."""
    topics, pattern = settings["topics"], settings["pattern"]
    if topics and pattern:
        raise PipelineError("give topics or pattern, not both")
    if topics:
        names = tuple(dict.fromkeys(name.strip() for name in topics.split(",") if name.strip()))
        for name in names:
            if OWN_TOPICS.fullmatch(name):
                raise PipelineError(f"topic {name} is an internal topic of brokers or copies: it cannot be copied")
        return Subscription(names=names)
    if not pattern and is_needed:
        raise PipelineError("no topics: give topics (names with commas) or pattern (a regular expression)")
    pattern = pattern or ".*"
    expression(pattern, "pattern")
    return Subscription(pattern=f"(?!(?:{OWN_TOPICS.pattern})$)(?:{pattern})")


def expression(text: str, what: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as fault:
        raise PipelineError(f"{what} {text!r} is not a regular expression: {fault}") from None


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of copies: some are renamed, the others get a prefix."""

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
                raise PipelineError(f"there cannot be a topic {name!r}: {fault}")
        return Naming(settings["prefix"], renamed)


def client_settings(path: str) -> dict[str, str]:
    """Client settings of a file, `name=value` a line; none without a path."""
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


def duration(settings: Mapping[str, str], name: str) -> int:
    """A setting that is a duration, in seconds."""
    try:
        return seconds_of(settings[name])
    except ValueError as fault:
        raise PipelineError(f"{name}: {fault}") from None


def choice(settings: Mapping[str, str], name: str, *choices: str) -> str:
    """A setting that is one of a few words."""
    if settings[name] not in choices:
        hint = nearest(settings[name], list(choices))
        raise PipelineError(f"{name} is {settings[name]!r}, but must be {' or '.join(choices)}{hint}")
    return settings[name]


def is_on(settings: Mapping[str, str], name: str) -> bool:
    return choice(settings, name, "true", "false") == "true"
