"""A plain `qanat start` command line, read without importing the command line parser.

It reads only long flags with a value of the right form, and `-X` and `-c`. The parser handles everything else
(`--help`, a mistake) and prints its errors; a test keeps both in agreement.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path

_FLAGS = ("--config", "--port", "--host", "--data-dir", "--node-id", "--log-format", "--log-level")
_SHORT = {"-c": "--config"}
_CHOICES = {"--log-format": ("text", "json"), "--log-level": ("debug", "info", "warning", "error")}


def quick_start(arguments: Sequence[str]) -> int | None:
    """Run a node with these arguments; None where they are not plain."""
    read = plain_flags(arguments)
    if read is None:
        return None
    values, assignments = read
    # Modules imported from here on stay; the garbage collector would scan them a dozen times for nothing.
    gc.disable()
    from qanat.app.node.serving import StartFlags, serve

    flags = StartFlags(assignments=assignments)
    for name, value in values.items():
        field = name.removeprefix("--").replace("-", "_")
        setattr(flags, field, _CONVERSIONS.get(name, str)(value))
    return serve(flags, os.environ)


def plain_flags(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """Flags with their values, and the values of `-X`; None where the parser is needed."""
    values: dict[str, str] = {}
    assignments: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if not equals:
            value = next(rest, "-")
        name = _SHORT.get(name, name)
        if value.startswith("-"):
            return None
        if name == "-X":
            assignments.append(value)
        elif name in _FLAGS and name not in values and _is_well_formed(name, value):
            values[name] = value
        else:
            return None
    return values, assignments


def _is_well_formed(name: str, value: str) -> bool:
    if name == "--port":
        return value.isascii() and value.isdigit()
    return value in _CHOICES.get(name, (value,))


_CONVERSIONS = {"--port": int, "--config": Path}
