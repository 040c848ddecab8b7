"""Listings a page at a time, in the order of their names, or of a number, the largest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from qanat.servers.http.inputs import Parameters
from qanat.servers.http.problems import Problem

Row = TypeVar("Row")


class PageQuery(Parameters, frozen=True):
    """A page of a listing."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    """How many at most."""
    page_token: str | None = None
    """`next_page_token` of the previous page."""


class WindowQuery(PageQuery, frozen=True):
    """A page of a long listing, which may begin anywhere in it."""

    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0
    """How many rows to leave out before the first; of use without `page_token`."""
    reverse: bool = False
    """The other way round: names from the end, the smallest number first."""


def page_of(rows: Iterable[Row], name_of: Callable[[Row], str], query: PageQuery) -> tuple[list[Row], str | None]:
    """The rows of a page, and the token of the next one, if any."""
    after = query.page_token
    left = sorted((row for row in rows if after is None or name_of(row) > after), key=name_of)
    shown = left[: query.limit]
    return shown, name_of(shown[-1]) if len(left) > len(shown) else None


class Window(NamedTuple):
    """A part of a listing, the token of the next page, and the length of the whole."""

    rows: list[Any]
    token: str | None
    total: int


def window_of(
    rows: Iterable[Row], number_of: Callable[[Row], float] | None, name_of: Callable[[Row], str], query: WindowQuery
) -> Window:
    """The rows with the largest numbers first; by name where there is no number, and among equal ones."""
    return window_in(in_order(rows, number_of, name_of, query), number_of, name_of, query)


def in_order(
    rows: Iterable[Row], number_of: Callable[[Row], float] | None, name_of: Callable[[Row], str], query: WindowQuery
) -> Sequence[Row]:
    """All rows as the query wants them."""
    ordered = sorted(rows, key=_place_by(number_of, name_of, query))
    if query.reverse and number_of is None:
        ordered.reverse()
    return ordered


def window_in(
    ordered: Sequence[Row], number_of: Callable[[Row], float] | None, name_of: Callable[[Row], str], query: WindowQuery
) -> Window:
    """The part of ordered rows that the query asks for.

    The token holds number and name of the last row: where numbers change between two pages, a row may be on both or on
    none, and pages still come to an end.
    """
    place_of = _place_by(number_of, name_of, query)
    begin = query.offset
    if query.page_token is not None:
        after = (0, query.page_token) if number_of is None else _place(query.page_token)
        places = [place_of(row) for row in ordered]
        is_backwards = query.reverse and number_of is None
        begin = sum([place >= after if is_backwards else place <= after for place in places])
    shown = list(ordered[begin : begin + query.limit])
    if begin + len(shown) >= len(ordered) or not shown:
        return Window(shown, None, len(ordered))
    last = place_of(shown[-1])
    return Window(shown, last[1] if number_of is None else msgspec.json.encode(last).decode(), len(ordered))


def _place_by(
    number_of: Callable[[Row], float] | None, name_of: Callable[[Row], str], query: WindowQuery
) -> Callable[[Row], tuple[float, str]]:
    if number_of is None:
        return lambda row: (0, name_of(row))
    sign = 1 if query.reverse else -1
    return lambda row: (sign * number_of(row), name_of(row))


def _place(token: str) -> tuple[float, str]:
    try:
        return msgspec.json.decode(token, type=tuple[float, str])
    except msgspec.MsgspecError:
        raise Problem(400, "page_token is not one of this listing in this order", parameter="page_token") from None
