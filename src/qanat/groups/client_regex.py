"""Regular expressions that clients send: RE2's, which take time linear in their input.

Kafka's brokers use the same (KIP-848, KIP-1152). With Python's own, one client could block all others.
"""

from __future__ import annotations

from functools import lru_cache

import re2  # type: ignore[import-untyped]

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

_MEMORY_BYTES = 1024 * 1024
"""Memory limit of one compiled pattern."""
_PATTERNS_KEPT = 128


class InvalidPatternError(QanatError):
    """A client's text is no regular expression, or one that is too large."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = _MEMORY_BYTES
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as fault:
            raise InvalidPatternError(f"{text[:80]!r} is no regular expression that RE2 takes: {fault}") from None

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of `text`."""
        return self._compiled.fullmatch(text) is not None


@lru_cache(_PATTERNS_KEPT)
def pattern(text: str) -> Pattern:
    """The pattern, compiled at its first use."""
    return Pattern(text)
