"""`qanat edge register`: a node gets its place."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from qanat.app.edge.registry_calls import THERE, RegistryError, RegistryTarget
from qanat.app.terminal.listing import Output, Row, print_done

_COLUMNS = ("node", "role", "parents", "topics", "version", "url", "instance")
RoleName = Literal["ROOT", "L2", "L3", "POS", "LOCAL"]


def register(
    node: str,
    *,
    role: RoleName,
    parents: str = "",
    topics: str = "*",
    url: str = "",
    dialect: Literal["", "batches", "json"] = "",
    output: Output = "table",
    target: RegistryTarget = THERE,
) -> None:
    """Add a node to the tree. The broker of that name finds its place when it asks, or has asked.

        qanat edge register root-1 --role ROOT --url http://centre-1.example:8080
        qanat edge register pos-17 --role POS --parents l3-1,l3-2 --topics price-*,orders

    Parameters
    ----------
    node:
        The name of the node: the broker's `node.id`.
    role:
        How far it is from the root; a parent's role is nearer to ROOT than its child's.
    parents:
        Its parents in the order in which they are tried, separated by commas.
    topics:
        The topics that its pipe carries, separated by commas; `*` at the end stands for any rest. `sales:store-17` is
        the records of one key, `sales:store-*` those of all keys that begin so.
    url:
        Where its children reach it; a broker that registers by itself says so.
    dialect:
        `json` for a feed that is no Qanat broker.
    output:
        `table` for people, the others for programs.
    """
    if any(one["node"] == node and one["role"] for one in target.nodes()):
        raise RegistryError(f"node {node} has a place already: qanat edge move {node} changes it")
    print_placed(put(target, node, role, parents, topics, url, dialect), output)


def put(
    target: RegistryTarget, node: str, role: str, parents: str, topics: str, url: str = "", dialect: str = ""
) -> Row:
    """Write the place of a node; returns the node as the registry has it."""
    body: dict[str, Any] = {"role": role, "parents": listed(parents), "topics": listed(topics)}
    if url:
        body["url"] = url
    if dialect:
        body["dialect"] = dialect
    found: Row = target.call("PUT", f"/api/v1/edge/nodes/{quote(node, safe='')}", body)
    return found


def print_placed(node: Row, output: str) -> None:
    """Say which place a node has."""
    print_done([node], _COLUMNS, output, _sentence)


def _sentence(node: Row) -> str:
    parents = ", ".join(node["parents"])  # type: ignore[arg-type]
    return f"{node['node']} is {node['role']}" + (f" below {parents}" if parents else "")


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [one.strip() for one in text.split(",") if one.strip()]
