"""The picture of `qanat top`: lines of text that fit a terminal, however small.

Rule: names come from clients: they are shown without control characters, and cut where they are too long.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.diagnosis.activity import Activity
from qanat.app.terminal.listing import counted
from qanat.app.terminal.printable import printable
from qanat.diagnosis.findings import data

_GAP = 2
_NAME_MIN = 8
_SPARE_ROWS = 3
"""Rows that each table gets first, before one of them takes more."""


def screen_of(activity: Activity, at: str, width: int, height: int) -> list[str]:
    """The lines: never more than `height`, none longer than `width`."""
    brokers = counted(len(activity.brokers), "broker")
    silent = f", not seen: {', '.join(map(str, activity.silent))}" if activity.silent else ""
    head = [
        f"qanat top {at}  {brokers}{silent}",
        (
            f"{activity.requests_per_s:,.0f} requests/s, {_rate(activity.in_bytes_per_s)} in, "
            f"{_rate(activity.out_bytes_per_s)} out"
        ),
    ]
    tables = [
        _table(
            ("broker", "requests/s", "in", "out", "produce", "loop", "late"),
            [
                (
                    str(one.node_id),
                    f"{one.requests_per_s:,.0f}",
                    _rate(one.in_bytes_per_s),
                    _rate(one.out_bytes_per_s),
                    "-" if one.produce_ms is None else f"{one.produce_ms:.1f} ms",
                    f"{100 * one.loop_share:.0f} %",
                    f"{one.late_ms:.1f} ms",
                )
                for one in activity.brokers
            ],
            width,
        ),
        _table(
            ("topic", "partitions", "records/s", "bytes"),
            [
                (one.topic, str(one.partitions), f"{one.records_per_s:,.0f}", _rate(one.bytes_per_s))
                for one in activity.topics
            ],
            width,
        ),
        _table(
            ("group", "state", "behind", "seconds", "grows"),
            [
                (one.group, one.state, f"{one.records:,}", f"{one.seconds:,.0f}", f"{one.records_per_s:+,.0f}/s")
                for one in activity.groups
            ],
            width,
        ),
    ]
    return [line[:width] for line in (*head, *_fitted(tables, height - len(head)))][:height]


def _fitted(tables: Sequence[list[str]], height: int) -> list[str]:
    """The tables, each cut so that all fit: a blank line and a heading come with each that has rows."""
    shown = [one for one in tables if len(one) > 1]
    rows = [min(len(one) - 1, _SPARE_ROWS) for one in shown]
    left = height - sum(rows) - 2 * len(shown)
    for number, one in enumerate(shown):
        more = max(0, min(left, len(one) - 1 - rows[number]))
        rows[number] += more
        left -= more
    lines: list[str] = []
    for one, count in zip(shown, rows, strict=True):
        lines += ["", *one[: count + 1]]
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A heading and rows: the first column on the left, numbers on the right; the last ones go where it is narrow."""
    cells = [tuple(columns), *(tuple(printable(one) for one in row) for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(columns))]
    kept = len(columns)
    while kept > 1 and _NAME_MIN + sum(widths[1:kept]) + _GAP * (kept - 1) > width:
        kept -= 1
    name = max(1, min(widths[0], width - sum(widths[1:kept]) - _GAP * (kept - 1)))
    return [
        _cut(row[0], name).ljust(name) + "".join(" " * _GAP + row[n].rjust(widths[n]) for n in range(1, kept))
        for row in cells
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _rate(size: float) -> str:
    return f"{data(size).replace(' bytes', ' B')}/s"
