"""`qanat edge list`: the nodes of a tree."""

from __future__ import annotations

from qanat.app.edge.registry_calls import THERE, RegistryTarget
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("node", "role", "parents", "topics", "version", "seen_ms_ago", "url", "instance")


def list_nodes(*, output: Output = "table", target: RegistryTarget = THERE) -> None:
    """List the nodes of a tree: role, parents in their order, topics, version, when each last asked.

        qanat edge list --registry http://centre.example:8080

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    rows: list[Row] = [
        {
            "node": one["node"],
            "role": one["role"] or "",
            "parents": ",".join(one["parents"]),
            "topics": ",".join(one["topics"]),
            "version": one["version"],
            "seen_ms_ago": one["seen_ms_ago"],
            "url": one["url"] or "",
            "instance": one["instance"],
        }
        for one in target.nodes()
    ]
    print_rows(rows, _COLUMNS, output, spare=("instance", "url", "topics"))
