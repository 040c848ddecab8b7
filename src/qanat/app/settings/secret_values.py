"""Secrets in settings: read from a file, a variable or a command, and never shown.

    ssl.key.password=${file:/run/secrets/key-password}
    ssl.key.password=${env:KEY_PASSWORD}
    ssl.key.password=${command:pass show qanat/key}

Any setting of any source may be such a reference, as a whole (`connection.secret_references`). It is read once, when
the node starts; a last line break is taken off.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.app.settings.source_value import SourceValue, is_secret
from qanat.connection.secret_references import read_reference, reference_in


def resolved(value: SourceValue, environment: Mapping[str, str]) -> SourceValue:
    """A value with its reference read; raises `InvalidSettingError`, which never shows what was read."""
    reference = reference_in(value.text)
    if reference is None:
        return value
    text = read_reference(reference, f"{value.name} ({value.origin})", environment, is_secret=is_secret(value.name))
    return SourceValue(value.name, text.removesuffix("\n").removesuffix("\r"), value.origin)
