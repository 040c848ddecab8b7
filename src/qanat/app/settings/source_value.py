"""A setting as one source has it, with its place in the source, which errors and notices name."""

from __future__ import annotations

import re

from msgspec import Struct

from qanat.model.errors import InvalidSettingError

HIDDEN = "[hidden]"
_SECRETS = (
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "edge.authorization",
)


class SourceValue(Struct, frozen=True):
    """A name, its value as text, and its place: `qanat.yml line 3`, `environment variable DATA_DIR`."""

    name: str
    text: str
    origin: str

    def __repr__(self) -> str:
        return f"SourceValue({self.name!r}, {self.shown!r}, {self.origin!r})"

    @property
    def shown(self) -> str:
        """The value, unless it is a secret."""
        return HIDDEN if is_secret(self.name) else self.text

    def wrong(self, reason: str) -> InvalidSettingError:
        """The error for a value that its setting cannot have."""
        return InvalidSettingError(f"{self.name} = {self.shown!r} ({self.origin}): {reason}")


def is_secret(name: str) -> bool:
    """Whether a setting, of the node or of one listener, is never shown.

    >>> is_secret("listener.name.http.ssl.key.password")
    True
    """
    return name.endswith(_SECRETS)


def leading_name(text: str) -> str:
    """The name at the beginning of an argument; what follows may be a secret.

    >>> leading_name("ssl.key.password:hunter2")
    'ssl.key.password'
    """
    match = re.match(r"[\w.-]*", text)
    assert match is not None, "it may be empty"
    return match[0]
