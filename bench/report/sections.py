"""The sections of the page that are made of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bench.peers.report import as_markdown_table
from bench.report import behind, costs, headline, prose
from bench.report.part_results import PartResult
from bench.report.parts import PARTS
from qanat.app.bench.figures import Row
from qanat.app.bench.report import cells, number

HEADINGS = ("workload", "what", "Qanat", "compared with", "ratio", "required; goal", "verdict", "spread")
_TITLES = {part.name: part.title for part in PARTS}
_ELSEWHERE = ("memory", "start")
"""Figures that do not depend on flushing."""
_MOST_SHOWN = 10


def headlines(judged: Sequence[headline.Judged], required: Sequence[headline.Requirement]) -> str:
    table = as_markdown_table(headline.HEADINGS, [one.cells for one in judged])
    return f"{prose.HEADLINE}\n{table}\n{of_lines(judged)}\n{_of_requirements(required)}"


def of_lines(judged: Sequence[headline.Judged], where: str = "") -> str:
    """How many lines meet what is asked of them."""
    count = Counter(one.verdict for one in judged)
    lines = f"Of the {len(judged)} lines of {where}" if where else f"Of these {len(judged)} lines"
    return (
        f"{lines}, {count['goal met']} meet their goal, {count['floor met']} only their floor, "
        f"{count['NOT met']} miss it, {count['inconclusive']} are inconclusive and {count['not measured']} were not "
        "measured.\n"
    )


def _of_requirements(required: Sequence[headline.Requirement]) -> str:
    """Every figure of the page with a requirement is counted, not only the lines of the table above."""
    of: dict[str, list[headline.Requirement]] = {"met": [], "NOT met": [], "inconclusive": []}
    for one in required:
        of[one.row.verdict].append(one)
    met, missed, inconclusive = (len(rows) for rows in of.values())
    text = [f"Of all {len(required)} figures of this page with a requirement, {met} meet it, "]
    text[0] += f"{missed} miss it and {inconclusive} are inconclusive.\n"
    for what, verdict in (("Missed", "NOT met"), ("Inconclusive", "inconclusive")):
        if of[verdict]:
            text.append(f"{what}:\n\n" + "".join(map(_line, of[verdict])))
    return "\n".join(text)


def _line(one: headline.Requirement) -> str:
    return f"- {one.part}/{one.row.figure}: {one.what}\n"


def promises(kept: Mapping[str, PartResult]) -> str:
    """The figures that others promise, and the measured ones."""
    broker = kept.get("broker")

    def measured(figures: Sequence[tuple[str, str, str]]) -> str:
        rows = [(label, broker.row(figure, ending)) for label, figure, ending in figures] if broker else []
        cells = [f"{label}: {number(row.ours)} {row.unit}" for label, row in rows if row is not None]
        return "; ".join(cells) or "not measured in this run"

    rows = [
        ("“1M+ messages/sec”", measured([("produced", "produce-100", ""), ("consumed", "consume-100", "")])),
        (
            "“<10ms p99”",
            measured(
                [
                    ("end to end at 1,000/s, p99", "end-to-end", "p99"),
                    ("at 50,000/s, p99", "end-to-end-50k", "p99"),
                    ("with fsync at 1,000/s, p99", "fsync-end-to-end", "p99"),
                ]
            ),
        ),
        (
            "“Sub-millisecond to low milliseconds end-to-end”",
            measured(
                [("end to end at 1,000/s, p50", "end-to-end", "p50"), ("with fsync, p50", "fsync-end-to-end", "p50")]
            ),
        ),
        (
            "“Sub-millisecond to millisecond response times”",
            measured(
                [
                    ("synchronous produce, p50", "sync", "p50"),
                    ("p99", "sync", "p99"),
                    ("with fsync", "fsync-sync", "p50"),
                ]
            ),
        ),
    ]
    return f"{prose.PROMISES}\n{as_markdown_table(('promised', 'measured'), rows)}"


def by_flushing(kept: Mapping[str, PartResult], *, is_flushed: bool) -> str:
    """All tables of one of the two comparisons."""
    text = [prose.FLUSHED if is_flushed else prose.UNFLUSHED]
    for name in ("broker", "limit", "three"):
        if name in kept and not (is_flushed and name == "limit"):
            rows = [
                row
                for row in kept[name].rows
                if row.figure.startswith(headline.FSYNC) == is_flushed and row.figure not in _ELSEWHERE
            ]
            text.append(_section(f"{_TITLES[name]}", rows))
    if "peers" in kept:
        tables = [
            one for one in kept["peers"].found.get("tables", ()) if one["title"].startswith("Durable") == is_flushed
        ]
        text += [_of_peers(one, _TITLES["peers"]) for one in tables if not one["title"].startswith("Start")]
    return "\n".join(text)


def protected(kept: Mapping[str, PartResult]) -> str:
    """Both sides with TLS, SASL and ACLs, then rules and guesses of Qanat alone."""
    if "protected" not in kept:
        return ""
    rows = kept["protected"].rows
    beside = [row for row in rows if row.limit_is.startswith(headline.KAFKA)]
    alone = [row for row in rows if row not in beside]
    tables = [_section("One broker and Apache Kafka, protected", beside), _section("Rules and guesses", alone)]
    return "\n".join([prose.PROTECTED, *tables])


def others(kept: Mapping[str, PartResult]) -> str:
    """Start and memory, failover, Spark."""
    text: list[str] = []
    for name, title in (("broker", "Start and memory, one broker"), ("three", "Memory, three brokers")):
        if rows := [row for row in kept[name].rows if row.figure in _ELSEWHERE] if name in kept else []:
            text.append(_section(title, rows, level=2))
    if "peers" in kept:
        tables = [one for one in kept["peers"].found.get("tables", ()) if one["title"].startswith("Start")]
        text += [_of_peers(one, "Start and memory, compared with other systems") for one in tables]
    for name, title in (("failover", "Loss of one of three brokers; many partitions"), ("spark", "Spark")):
        if name in kept:
            text.append(_section(title, kept[name].rows, level=2))
    return "\n".join(text)


def _section(title: str, rows: Sequence[Row], level: int = 3) -> str:
    body = as_markdown_table(HEADINGS, [cells(row) for row in rows]) if rows else "Nothing was measured.\n"
    return f"{'#' * level} {title}\n\n{body}"


def _of_peers(table: Mapping[str, object], title: str) -> str:
    figures: Sequence[Mapping[str, object]] = table["figures"]  # type: ignore[assignment]
    systems = list(dict.fromkeys(name for one in figures for name in one["systems"]))  # type: ignore[attr-defined]
    rows = [[str(one["what"]), str(one["unit"]), *(_cell(one["systems"], name) for name in systems)] for one in figures]
    body = as_markdown_table(["what", "unit", *systems], rows) if rows else "Nothing was measured.\n"
    left_out: Mapping[str, str] = table["left_out"]  # type: ignore[assignment]
    missing = "".join(f"\n{name} is not in this table: {reason}.\n" for name, reason in left_out.items())
    return f"### {title}\n\n{prose.PEERS}\n{body}{missing}"


def _cell(systems: object, name: str) -> str:
    one = systems.get(name) if isinstance(systems, Mapping) else None
    if one is None:
        return "–"
    text = f"{number(one['median'])} ({number(one['lowest'])} to {number(one['highest'])})"
    return text if one["qanat_to_it"] is None else f"{text}; {one['qanat_to_it']:.2f}×"


def behind_others(found: Sequence[behind.Behind]) -> str:
    rows = [one.cells for one in found]
    return f"{prose.BEHIND}\n{as_markdown_table(behind.HEADINGS, rows) if rows else 'Nowhere in this run.'}\n"


def where_time_goes(kept: Mapping[str, PartResult]) -> str:
    text = [prose.TIME]
    profiles = kept["profile"].found.get("profiles", {}) if "profile" in kept else {}
    for one in profiles.values():
        cpu = one["cpu_us_per_message"]
        text.append(f"### {one['what'][0].upper()}{one['what'][1:]}\n")
        below = ", ".join(f"{name} {share:.0%}" for name, share in one["below"].items()) or "not seen"
        text.append(f"{number(cpu)} µs of CPU time a message, {one['samples']} samples. Below: {below}.\n")
        text.append(_shares("function", one["functions"], cpu))
    if not profiles:
        text.append("No profile was taken in this run.\n")
    return "\n".join([*text, costs_of(kept.get("broker"))])


def _shares(what: str, shares: Mapping[str, float], cpu_us: float) -> str:
    most = list(shares.items())[:_MOST_SHOWN]
    rows = [(f"`{name}`", f"{share:.0%}", f"{share * cpu_us:.2f}") for name, share in most]
    return as_markdown_table((what, "share", "µs a message"), rows)


def costs_of(broker: PartResult | None) -> str:
    """The fitted cost of a message and a byte, and the measured cost of a request."""
    rows: list[Sequence[str]] = []
    show: Callable[[float], str] = lambda value: f"{max(value, 0.0):.2f}"  # noqa: E731
    for mode in ("produce", "consume"):
        for name, points in (costs.by_size(broker, mode) if broker else {}).items():
            if (cost := costs.fitted(points)) is not None:
                sizes = ", ".join(f"{size:,} B: {value:.2f}" for size, value in points)
                rows.append((mode, name, show(cost.per_message_us), show(cost.per_kib_us), sizes))
    single = broker.row("single", "broker CPU per message") if broker else None
    table = as_markdown_table(("", "broker", "µs a message", "µs a KiB", "measured, µs a message"), rows)
    request = f"\nA request of its own, 100 B: {number(single.ours)} µs" if single else ""
    if single is not None and single.limit is not None:
        request += f"; {single.limit_is}: {number(single.limit)} µs"
    return f"{prose.COSTS}\n{table if rows else 'Not measured in this run.'}\n{request}{'.' if request else ''}\n"
