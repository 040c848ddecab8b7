"""A check of columns in DDL before Spark parses them. Pure.

Spark gets the columns of the whole read as one text, and its errors would be about that text, not about the option.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from qanat.spark.formats.value_format import SchemaError

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.+-]+|\S)")
_PUNCTUATION = frozenset("<>(),:")
_SIMPLE = (
    *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"),
    *("float", "real", "double", "decimal", "dec", "numeric"),
    *("string", "char", "character", "varchar", "binary"),
    *("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "void", "variant"),
)
_TYPES = (*_SIMPLE, "array", "map", "struct")


def check_columns(text: str) -> None:
    """Raise `SchemaError` where a text is neither `name type, name type` nor a single nested type.

    >>> check_columns("id bigint, `a b`: decimal(10, 2) not null, tags array<struct<k: string, v: map<string, int>>>")
    >>> check_columns("id bigglint")
    Traceback (most recent call last):
    qanat.spark.formats.value_format.SchemaError: bigglint is not a Spark type; did you mean bigint?
    """
    reader = _Reader(_TOKEN.findall(text))
    if reader.peek().lower() in ("array", "map", "struct") and reader.peek(1) == "<":
        reader.type()
    else:
        reader.columns()
    if reader.peek():
        raise SchemaError(f"expected a comma or the end instead of {reader.peek()}")


class _Reader:
    """Reads the tokens of a schema from left to right."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        """An upcoming token; empty after the end."""
        return self._words[self._at + ahead] if self._at + ahead < len(self._words) else ""

    def columns(self) -> None:
        names = [self._column()]
        while self.peek() == ",":
            self._at += 1
            names.append(self._column())
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(f"column {twice} is named twice")

    def type(self) -> None:
        word = self._word("a type").lower()
        if word not in _TYPES:
            near = get_close_matches(word, _TYPES, n=1, cutoff=0.5)
            raise SchemaError(
                f"{word} is not a Spark type"
                + (f"; did you mean {near[0]}?" if near else f": those are {', '.join(_TYPES)}")
            )
        if word in ("array", "map", "struct"):
            self._mark("<", word)
            if word == "struct":
                self.columns()
            else:
                self.type()
            if word == "map":
                self._mark(",", word)
                self.type()
            self._mark(">", word)
        elif self.peek() == "(":
            while self.peek() not in (")", ""):
                self._at += 1
            self._mark(")", word)

    def _column(self) -> str:
        name = self._word("a column's name")
        if self.peek() == ":":
            self._at += 1
        if self.peek() in ("", ",", ">"):
            raise SchemaError(f'column {name} has no type; write it as in "id bigint, name string"')
        self.type()
        # Spark checks NOT NULL, COMMENT and so on.
        while self.peek() and self.peek() not in _PUNCTUATION:
            self._at += 1
        return name.strip("`")

    def _word(self, what: str) -> str:
        word = self.peek()
        if not word or word in _PUNCTUATION:
            raise SchemaError(f"{what} is missing " + (f"before {word}" if word else "at its end"))
        self._at += 1
        return word

    def _mark(self, mark: str, inside: str) -> None:
        if self.peek() != mark:
            found = self.peek() or "the end"
            raise SchemaError(f"{inside} needs {mark} instead of {found}")
        self._at += 1
