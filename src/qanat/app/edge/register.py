"""`qanat edge register`: a node gets its place."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from qanat.app.edge.registry_calls import THERE, RegistryError, RegistryTarget

RoleName = Literal["ROOT", "L2", "L3", "POS", "LOCAL"]


def register(
    node: str,
    *,
    role: RoleName,
    parents: str = "",
    topics: str = "*",
    url: str = "",
    dialect: Literal["", "batches", "json"] = "",
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
        The topics that its pipe carries, separated by commas; `*` at the end stands for any rest.
    url:
        Where its children reach it; a broker that registers by itself says so.
    dialect:
        `json` for a feed that is no Qanat broker.
    """
    if any(one["node"] == node and one["role"] for one in target.nodes()):
        raise RegistryError(f"node {node} has a place already: qanat edge move {node} changes it")
    put(target, node, role, parents, topics, url, dialect)
    print(f"{node} is {role}" + (f" below {parents}" if parents else ""))


def put(
    target: RegistryTarget, node: str, role: str, parents: str, topics: str, url: str = "", dialect: str = ""
) -> None:
    """Write the place of a node."""
    body: dict[str, Any] = {"role": role, "parents": listed(parents), "topics": listed(topics)}
    if url:
        body["url"] = url
    if dialect:
        body["dialect"] = dialect
    target.call("PUT", f"/api/v1/edge/nodes/{quote(node, safe='')}", body)


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [one.strip() for one in text.split(",") if one.strip()]
