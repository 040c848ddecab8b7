"""Foreign text made safe for a terminal: what would move the cursor, colour or turn writing around becomes escapes.

Names and records come from strangers. What goes to a file or a pipe is left as it is.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with escapes for whatever is not to be printed, except the characters to `keep`.

    >>> print(printable("red \x1b[31m and\nnext"))
    red \x1b[31m and\nnext
    """

    def escaped(match: re.Match[str]) -> str:
        letter = match[0]
        return letter if letter in keep else _NAMED.get(letter) or _numbered(letter)

    return _UNSAFE.sub(escaped, text)


def printable_content(content: bytes) -> bytes:
    """A record's bytes for a terminal; lines and tabs stay, bytes that are no text become escapes."""
    return printable(content.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def printable_json(line: str) -> str:
    """A line of JSON, which stays JSON with the same meaning."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _numbered(letter: str) -> str:
    code = ord(letter)
    # Arguments that are no UTF-8 reach us with such letters in place of their bytes.
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
