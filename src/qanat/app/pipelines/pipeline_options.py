"""A pipeline's settings as options of `qanat pipeline run`: `--lake X` is `--set lake=X`; a switch takes no value."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.client.arguments import WrongArgumentError
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.document import PipelineError, nearest
from qanat.spark.pipelines.pipeline import Pipeline


def parse_options(pipeline: Pipeline, words: Sequence[str]) -> dict[str, str]:
    """The settings in options that the command itself does not have."""
    found: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--") or word == "--":
            raise WrongArgumentError(f"{word!r} is one argument too many: options look like --name value")
        option, separator, value = word.removeprefix("--").partition("=")
        name = option.replace("-", "_")
        if name not in pipeline.settings:
            hint = nearest(name, pipeline.settings) if pipeline.settings else ""
            raise WrongArgumentError(f"there is no option --{option}, and pipeline {pipeline.name} has none{hint}")
        if not separator:
            if is_switch(pipeline, name) and (not left or left[0] not in ("true", "false")):
                value = "true"
            elif left:
                value = left.pop(0)
            else:
                raise WrongArgumentError(f"--{option} needs a value")
        found[name] = value
    return found


def is_switch(pipeline: Pipeline, name: str) -> bool:
    return pipeline.settings[name] in ("true", "false")


def options_help(name: str) -> str:
    """The settings of a pipeline, for `--help`; nothing where there is no such pipeline."""
    try:
        pipeline = named(name)
    except PipelineError:
        return ""
    lines = [f"--{key.replace('_', '-')}" + ("" if is_switch(pipeline, key) else " VALUE") for key in pipeline.settings]
    width = max(map(len, lines), default=0)
    hint = "\n".join(
        f"{line:<{width}}  {_meaning(pipeline, key)}".rstrip()
        for line, key in zip(lines, pipeline.settings, strict=True)
    )
    about = f"\n\n```\n{pipeline.about}\n```" if pipeline.about else ""
    return f"\n\n**{pipeline.name}**: {pipeline.meaning}{about}\n\nIts options:\n\n```\n{hint}\n```"


def _meaning(pipeline: Pipeline, key: str) -> str:
    default = pipeline.settings[key]
    shown = f"[{default}]" if default and not is_switch(pipeline, key) else ""
    return f"{pipeline.meanings.get(key, '')} {shown}".strip()
