"""Listings a page at a time, in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

from msgspec import Meta

from qanat.servers.http.inputs import Parameters

Row = TypeVar("Row")


class PageQuery(Parameters, frozen=True):
    """A page of a listing."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    """How many at most."""
    page_token: str | None = None
    """`next_page_token` of the previous page."""


def page_of(rows: Iterable[Row], name_of: Callable[[Row], str], query: PageQuery) -> tuple[list[Row], str | None]:
    """The rows of a page, and the token of the next one, if any."""
    after = query.page_token
    left = sorted((row for row in rows if after is None or name_of(row) > after), key=name_of)
    shown = left[: query.limit]
    return shown, name_of(shown[-1]) if len(left) > len(shown) else None
