"""Cursors: where the next page of a listing begins.

Rule 1: a cursor belongs to its listing, which is what was asked without `limit`: another listing refuses it.
Rule 2: a cursor belongs to the edition that its page was of. After a refresh, and where records became void, the
        client begins again: a listing never has records of two generations.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.app.edge.consuming.reading import Query
    from qanat.edge.generations import Generations

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Listing(NamedTuple):
    """What is listed, in pages."""

    topic: str
    digest: int
    """Of what was asked."""
    edition: int
    """Of what is served now."""


class _Cursor(Struct, frozen=True, array_like=True):
    digest: int
    edition: int
    place: tuple[int, ...] | bytes


def listing_of_records(query: Query, generations: Generations) -> Listing:
    return Listing(query.topic, _digest("records", *query), generations.edition(query.topic, query.partition))


def listing_of_keys(topic: str, prefix: bytes, generations: Generations) -> Listing:
    return Listing(topic, _digest("latest", topic, prefix), generations.edition(topic))


def _digest(*asked: object) -> int:
    return zlib.crc32(msgspec.msgpack.encode(asked))


def cursor_of(listing: Listing, place: tuple[int, ...] | bytes | None) -> str | None:
    """A place in a listing as an opaque text; None at its end."""
    if place is None:
        return None
    packed = msgspec.msgpack.encode(_Cursor(listing.digest, listing.edition, place))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def place_in(cursor: str | None, listing: Listing, *, is_by_time: bool) -> tuple[int, ...]:
    """The place that a cursor of a listing of records means."""
    if cursor is None:
        return ()
    place = _decoded(cursor, listing)
    if isinstance(place, bytes) or not _is_place(place, 3 if is_by_time else 2):
        raise _wrong_cursor()
    return place


def _is_place(place: Sequence[int], length: int) -> bool:
    return len(place) == length and all(_INT64_MIN <= one <= _INT64_MAX for one in place)


def key_in(cursor: str | None, listing: Listing) -> bytes | None:
    """The key that a cursor of a listing of keys means."""
    if cursor is None:
        return None
    place = _decoded(cursor, listing)
    if not isinstance(place, bytes):
        raise _wrong_cursor()
    return place


def _decoded(cursor: str, listing: Listing) -> tuple[int, ...] | bytes:
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = msgspec.msgpack.decode(packed, type=_Cursor)
    except (ValueError, msgspec.MsgspecError):
        raise _wrong_cursor() from None
    if found.digest != listing.digest:
        raise _wrong_cursor()
    if found.edition != listing.edition:
        raise Problem(
            410,
            f"what is served of {listing.topic} was replaced since the page before, as by a refresh: "
            "begin again, without cursor",
            parameter="cursor",
        )
    return found.place


def _wrong_cursor() -> Problem:
    return Problem(400, "cursor is not one of this listing: take next_cursor of the page before", parameter="cursor")
