"""References to secrets: `${file:…}`, `${env:…}` and `${command:…}` in place of a value, and what they refer to.

A file that holds a secret may be read by its owner only. A command is run without a shell.

Rule: nothing that was read is ever shown. Reading blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from qanat.connection.private_files import require_private
from qanat.model.errors import InvalidSettingError

KINDS = ("file", "env", "command")
_REFERENCE = re.compile(rf"\$\{{(?P<kind>{'|'.join(KINDS)}):(?P<place>[^}}]+)\}}")
_COMMAND_S = 30.0


class SecretReference(NamedTuple):
    """Where a value is: the path of a file, the name of a variable, or a command."""

    kind: str
    place: str


def reference_in(text: str) -> SecretReference | None:
    """The reference that a value is as a whole; None where it is the value itself."""
    match = _REFERENCE.fullmatch(text.strip())
    return None if match is None else SecretReference(match["kind"], match["place"].strip())


def read_reference(
    reference: SecretReference, setting: str, environment: Mapping[str, str], *, is_secret: bool = True
) -> str:
    """What a reference refers to; raises `InvalidSettingError`, which names `setting` and where it was looked for."""
    if reference.kind == "file":
        if is_secret:
            require_private(reference.place, setting)
        return _content(reference.place, setting)
    if reference.kind == "command":
        return _output(reference.place, setting)
    if reference.place not in environment:
        raise InvalidSettingError(f"{setting}: there is no environment variable {reference.place}")
    return environment[reference.place]


def _content(path: str, setting: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"{setting}: cannot read {path}: {reason}") from None


def _output(command: str, setting: str) -> str:
    import shlex
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=False)
        if done.returncode == 0:
            return done.stdout.decode("utf-8")
        reason = f"it ends with code {done.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it takes longer than {_COMMAND_S:g} s"
    except UnicodeDecodeError:
        reason = "its output is not UTF-8"
    except OSError as fault:
        reason = str(fault.strerror)
    except ValueError as fault:
        reason = str(fault)
    program = command.split(maxsplit=1)[0]
    raise InvalidSettingError(f"{setting}: the command {program} gives no value: {reason}")
