"""Arguments of commands: `name=value` pairs, and the error for a value that a command cannot use."""

from __future__ import annotations

from qanat.app.settings.source_value import leading_name
from qanat.model.errors import QanatError


class WrongArgumentError(QanatError):
    """An argument whose form or value the command cannot use."""


def assignments(pairs: list[str] | tuple[str, ...]) -> dict[str, str]:
    """`name=value` arguments."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise WrongArgumentError(f"{leading_name(pair)!r} should read name=value")
        found[name] = value
    return found
