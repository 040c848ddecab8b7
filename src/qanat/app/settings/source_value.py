"""A setting as one source has it, with its place in the source, which errors and notices name."""

from __future__ import annotations

from msgspec import Struct

from qanat.model.errors import InvalidSettingError


class SourceValue(Struct, frozen=True):
    """A name, its value as text, and its place: `qanat.yml line 3`, `environment variable DATA_DIR`."""

    name: str
    text: str
    origin: str

    def wrong(self, reason: str) -> InvalidSettingError:
        """The error for a value that its setting cannot have."""
        return InvalidSettingError(f"{self.name} = {self.text!r} ({self.origin}): {reason}")
