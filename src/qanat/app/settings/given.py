"""One setting as somebody wrote it, and where: what every error and notice can point at."""

from __future__ import annotations

from msgspec import Struct

from qanat.model.errors import InvalidSettingError


class Given(Struct, frozen=True):
    """A name, its value as text, and where it was found: `qanat.yml line 3`, `environment variable DATA_DIR`."""

    name: str
    text: str
    origin: str

    def wrong(self, reason: str) -> InvalidSettingError:
        """The error for a value that its setting cannot take."""
        return InvalidSettingError(f"{self.name} = {self.text!r} ({self.origin}): {reason}")
