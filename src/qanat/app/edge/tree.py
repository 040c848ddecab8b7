"""`qanat edge tree`: the tree, drawn."""

from __future__ import annotations

from typing import Any

from qanat.app.edge.registry_calls import THERE, RegistryTarget
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.printable import printable

_COLUMNS = ("node", "role", "depth", "parents", "topics", "version", "seen_ms_ago", "state", "url", "instance")


def tree(*, output: Output = "table", target: RegistryTarget = THERE) -> None:
    """Draw the tree: each node below its first parent.

        qanat edge tree --registry http://centre.example:8080

    Other parents and the node's topics stand beside it, and what is not as it should be: records behind or still to go
    up, a pipe that fails, partitions that stopped. A node says so when it asks, every 25 seconds at least.

    Parameters
    ----------
    output:
        `table` draws it for people; the others list the nodes in the same order, each with its depth, for programs.
    """
    nodes = {str(one["node"]): one for one in target.nodes()}
    if output != "table":
        print_rows(rows_of(nodes), _COLUMNS, output)
        return
    for line in drawn(nodes):
        print(printable(line))


def rows_of(nodes: dict[str, dict[str, Any]]) -> list[Row]:
    """The nodes, each after its first parent, with its depth."""
    tops, below = _arranged(nodes)
    rows: list[Row] = []

    def add(name: str, depth: int) -> None:
        node = nodes[name]
        rows.append({column: depth if column == "depth" else node.get(column) for column in _COLUMNS})
        for child in below.get(name, []):
            add(child, depth + 1)

    for name in tops:
        add(name, 0)
    return rows


def _arranged(nodes: dict[str, dict[str, Any]]) -> tuple[list[str], dict[str, list[str]]]:
    """The nodes at the top, without a known parent, and those below each first parent."""
    below: dict[str, list[str]] = {}
    tops: list[str] = []
    for name in sorted(nodes):
        parents = [one for one in nodes[name]["parents"] if one in nodes]
        if parents:
            below.setdefault(parents[0], []).append(name)
        else:
            tops.append(name)
    return tops, below


def drawn(nodes: dict[str, dict[str, Any]]) -> list[str]:
    """The lines of the tree; nodes without a known parent are at its top."""
    tops, below = _arranged(nodes)
    lines: list[str] = []

    def draw(name: str, before: str, mark: str, rest: str) -> None:
        lines.append(f"{before}{mark}{_described(nodes[name])}")
        children = below.get(name, [])
        for child in children:
            is_last = child == children[-1]
            draw(
                child, before + rest, "\u2514\u2500 " if is_last else "\u251c\u2500 ", "   " if is_last else "\u2502  "
            )

    for name in tops:
        draw(name, "", "", "")
    return lines or ["the tree is empty: qanat edge register NODE --role ROOT --url URL"]


def _described(node: dict[str, Any]) -> str:
    words = [str(node["node"]), str(node["role"] or "(no role)")]
    if len(node["parents"]) > 1:
        words.append("also below " + ", ".join(node["parents"][1:]))
    if node["topics"] != ["*"]:
        words.append("topics " + ", ".join(node["topics"]))
    if not node["instance"]:
        words.append("not registered yet")
    elif node["seen_ms_ago"] is not None:
        words.append(f"asked {node['seen_ms_ago'] / 1000:.0f} s ago")
    words += _troubles(node.get("state") or {})
    return "  ".join(words)


def _troubles(state: dict[str, Any]) -> list[str]:
    """What a node has said of itself that is not as it should be."""
    words: list[str] = []
    if state.get("pipe", "HEALTHY") != "HEALTHY":
        words.append(f"pipe {state['pipe']}")
    for name, meaning in (
        ("lag_records", "records behind"),
        ("stopped", "partitions stopped"),
        ("up_lag_records", "records to go up"),
        ("up_waiting", "outboxes waiting"),
        ("up_stopped", "outboxes stopped"),
    ):
        if state.get(name):
            words.append(f"{state[name]} {meaning}")
    return words
