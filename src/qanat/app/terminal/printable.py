"""Untrusted text made safe for a terminal: control characters that move the cursor, colour or reverse text are escaped.

Names and records come from clients that are not trusted. Text for a file or a pipe stays unchanged.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with escapes for unsafe characters, except those to `keep`.

    >>> print(printable("red \x1b[31m and\nnext"))
    red \x1b[31m and\nnext
    """

    def escaped(match: re.Match[str]) -> str:
        letter = match[0]
        return letter if letter in keep else _NAMED.get(letter) or _numbered(letter)

    return _UNSAFE.sub(escaped, text)


def printable_content(content: bytes) -> bytes:
    """A record's bytes for a terminal; line breaks and tabs stay, bytes that are not text become escapes."""
    return printable(content.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def printable_json(line: str) -> str:
    """A line of JSON, which stays JSON with the same meaning."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _numbered(letter: str) -> str:
    code = ord(letter)
    # Python decodes arguments that are not UTF-8 with such characters in place of their bytes.
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
