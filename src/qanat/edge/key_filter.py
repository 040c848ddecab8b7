"""Key filters: which records of a topic a pipe carries, by the records' keys.

An entry of a node's topics may name a key after a colon: `sales:store-17`, or with `*` at the end all keys that begin
so. Several entries of one topic add up. A mirror keeps the filter that it was made with (`mirror.keys`).

Rule 1: a filter is a tuple of keys and beginnings in normal form: sorted, and none within another. The empty tuple is
        no filter: the whole topic, byte by byte.
Rule 2: what a node gets through a filtered parent is what both let through (`common`). A mirror takes records only from
        a parent that lets through exactly the mirror's own filter, so that it never lacks some of its keys in silence.
Rule 3: a record without a key passes no filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

Keys = tuple[str, ...]
WHOLE: Keys = ()
KEY_LENGTH_MAX = 500
KEYS_MAX = 1000
_SEPARATOR = ":"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\*?|\*")


def split_entry(entry: str) -> tuple[str, str]:
    """The topic of an entry, with its `*`, and the key; empty for none."""
    topic, _, key = entry.partition(_SEPARATOR)
    return topic, key


def why_no_entry(entry: str) -> str | None:
    """What is wrong with an entry of a node's topics; None for nothing."""
    topic, key = split_entry(entry)
    if _TOPIC.fullmatch(topic) is None:
        return f"{entry[:100]!r} names no topic: use a name, or a beginning with *"
    return why_no_key(key) if _SEPARATOR in entry else None


def why_no_key(key: str) -> str | None:
    """What is wrong with a key of a filter; None for nothing."""
    if not key or len(key) > KEY_LENGTH_MAX or "," in key:
        return f"{key[:100]!r} is no key to filter by: use 1 to {KEY_LENGTH_MAX} characters without a comma"
    return None


def normal(keys: Iterable[str]) -> Keys:
    """A filter in normal form."""
    ordered = sorted(dict.fromkeys(keys))
    return tuple(one for one in ordered if not any(one != other and _is_within(one, other) for other in ordered))


def common(one: Keys, other: Keys) -> Keys | None:
    """The filter of what passes both; None where nothing can."""
    if not one or not other:
        return one or other
    both = [*(key for key in one if _is_in(key, other)), *(key for key in other if _is_in(key, one))]
    return normal(both) or None


def _is_in(key: str, keys: Keys) -> bool:
    return any(_is_within(key, other) for other in keys)


def _is_within(key: str, other: str) -> bool:
    """Whether a key, or a beginning, lets nothing through that `other` does not."""
    return key == other or (other.endswith("*") and key.startswith(other[:-1]))


def wanted_keys(topic_entries: Sequence[str]) -> Keys | None:
    """The filter of a topic by the entries that name it; None where there is none."""
    keys = [split_entry(one)[1] for one in topic_entries]
    if not keys:
        return None
    return WHOLE if "" in keys else normal(keys)


def passing(keys: Keys) -> Callable[[bytes | None], bool]:
    """Says whether a record with a key passes a filter, which is not empty."""
    exact = frozenset(one.encode() for one in keys if not one.endswith("*"))
    beginnings = tuple(one[:-1].encode() for one in keys if one.endswith("*"))
    return lambda key: key is not None and (key in exact or key.startswith(beginnings))


def to_setting(keys: Keys) -> str:
    """A filter as a setting of a topic."""
    return ",".join(keys)


@lru_cache(maxsize=1000)
def of_setting(text: str) -> Keys:
    """A filter from a setting of a topic."""
    return normal(text.split(",")) if text else WHOLE
