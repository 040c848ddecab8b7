"""`qanat edge list`: the nodes of a tree."""

from __future__ import annotations

from qanat.app.edge.registry_calls import THERE, RegistryTarget
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("node", "role", "parents", "topics", "version", "seen_ms_ago", "pipe", "lag", "up_lag", "url", "instance")


def list_nodes(*, output: Output = "table", target: RegistryTarget = THERE) -> None:
    """List the nodes of a tree: role, parents in their order, topics, version, when each last asked.

        qanat edge list --registry http://centre.example:8080

    Beside that, how each did then by its own words: its pipe, the records that it lacks, and those that it still has to
    send up.

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
            "pipe": (one.get("state") or {}).get("pipe", ""),
            "lag": (one.get("state") or {}).get("lag_records", ""),
            "up_lag": (one.get("state") or {}).get("up_lag_records", ""),
            "url": one["url"] or "",
            "instance": one["instance"],
        }
        for one in target.nodes()
    ]
    print_rows(rows, _COLUMNS, output, spare=("instance", "url", "topics"))
