"""The page for users: the lines that most of them ask for, promised figures, and where others are better.

Everything else is in the full report, which `page` composes of the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.peers.report import as_markdown_table
from bench.report import prose, sections
from bench.report.behind import Behind
from bench.report.headline import Judged
from bench.report.part_results import PartResult

SHOWN = (
    "produce 100 B (bounded by the client)",
    "produce 1 KB",
    "consume 1 KB",
    "single-record requests, pipelined",
    "broker CPU per message in, 1 KB",
    "end to end at 1,000 messages/s, p99",
    "three brokers, RF 3, acks=all: 1 KB",
    "longest gap when the leader is killed",
    "process start to first answer",
    "memory under load",
    "protected: produce 1 KB",
    "produce 1 KB in batches, fsync",
    "synchronous produce, fsync, p50",
)
"""The lines of the headline that this page shows, by their text."""
_MOST_BEHIND = 8
_HEADINGS = ("workload", "Qanat", "Apache Kafka", "ratio")


def chosen(judged: Sequence[Judged]) -> list[Judged]:
    """The lines of this page, in its order."""
    of = {one.line.what: one for one in judged}
    return [of[what] for what in SHOWN if what in of]


def composed(
    kept: Mapping[str, PartResult],
    judged: Sequence[Judged],
    behind: Sequence[Behind],
    picture: str,
    warnings: Sequence[str],
) -> str:
    """The whole page; `picture` is the file of the plot, empty where nothing could be drawn."""
    rows = [(what, ours, theirs, ratio) for what, _, _, ratio, _, ours, theirs in _cells(judged)]
    parts = [
        prose.USERS_HEAD,
        *warnings,
        f"{prose.USERS_LINES}\n{as_markdown_table(_HEADINGS, rows)}",
        sections.of_lines(judged, "the full report"),
        f"![How many times better than Apache Kafka]({picture})\n" if picture else "",
        sections.promises(kept),
        f"{prose.USERS_BEHIND}\n{_worst(behind)}",
        prose.USERS_NEXT,
    ]
    return "\n".join(part for part in parts if part)


def _cells(judged: Sequence[Judged]) -> list[tuple[str, ...]]:
    return [one.cells for one in chosen(judged)]


def _worst(behind: Sequence[Behind]) -> str:
    rows = [(one.what, one.system, *one.cells[3:6]) for one in behind[:_MOST_BEHIND]]
    if not rows:
        return "Nowhere in this run.\n"
    return as_markdown_table(("what", "better is", "Qanat", "theirs", "ratio"), rows)
