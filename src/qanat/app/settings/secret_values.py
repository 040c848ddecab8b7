"""Secrets in settings: read from a file, a variable or a command, and never shown.

    ssl.key.password=${file:/run/secrets/key-password}
    ssl.key.password=${env:KEY_PASSWORD}
    ssl.key.password=${command:pass show qanat/key}

Any setting of any source may be such a reference, as a whole. A file that holds a secret may be read by its owner only.
A command is run without a shell, once, when the node starts; its last line break is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qanat.app.settings.source_value import SourceValue, is_secret
from qanat.model.errors import InvalidSettingError

KINDS = ("file", "env", "command")
_REFERENCE = re.compile(r"\$\{(?P<kind>file|env|command):(?P<place>[^}]+)\}")
_COMMAND_S = 30.0


def resolved(value: SourceValue, environment: Mapping[str, str]) -> SourceValue:
    """A value with its reference read; raises `InvalidSettingError`, which never shows what was read."""
    match = _REFERENCE.fullmatch(value.text.strip())
    if match is None:
        return value
    kind, place = match["kind"], match["place"].strip()
    if kind == "env":
        text = environment.get(place)
        if text is None:
            raise value.wrong(f"there is no environment variable {place}")
    else:
        text = (_file if kind == "file" else _output)(place, value)
    return SourceValue(value.name, text.removesuffix("\n").removesuffix("\r"), value.origin)


def _file(path: str, value: SourceValue) -> str:
    from qanat.connection.private_files import require_private

    if is_secret(value.name):
        require_private(path, value.name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"{value.name} ({value.origin}): cannot read {path}: {reason}") from None


def _output(command: str, value: SourceValue) -> str:
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
    raise InvalidSettingError(f"{value.name} ({value.origin}): the command {program} gives no value: {reason}")
