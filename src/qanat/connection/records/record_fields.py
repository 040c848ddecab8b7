"""The fields of a record that a condition may name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

Subject = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str | bytes, bytes | None], ...]]
"""Partition, offset, timestamp, key, value, headers."""


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")


_decode = msgspec.json.Decoder().decode


def read_json(content: bytes | None) -> Any:
    """The parsed value, None where it is no JSON; what the fast parser refuses (NaN, 1e999) Python's own may accept."""
    if content is None:
        return None
    try:
        return _decode(content)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(content.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


_read_json_once = lru_cache(maxsize=1)(read_json)
"""For a condition that names it several times."""


def _headers(subject: Subject) -> dict[str, str | None]:
    return {
        name if isinstance(name, str) else name.decode("utf-8", "replace"): _text(content)
        for name, content in subject[5]
    }


FIELDS: Mapping[str, Callable[[Subject], Any]] = {
    "key": lambda subject: _text(subject[3]),
    "value": lambda subject: _text(subject[4]),
    "headers": _headers,
    "json": lambda subject: _read_json_once(subject[4]),
    "partition": lambda subject: subject[0],
    "offset": lambda subject: subject[1],
    "timestamp": lambda subject: subject[2],
    "true": lambda subject: True,
    "false": lambda subject: False,
    "null": lambda subject: None,
}
