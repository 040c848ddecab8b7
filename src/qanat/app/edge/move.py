"""`qanat edge move`: another place for a node."""

from __future__ import annotations

from qanat.app.edge.register import RoleName, print_placed, put
from qanat.app.edge.registry_calls import THERE, RegistryError, RegistryTarget
from qanat.app.terminal.listing import Output


def move(
    node: str,
    *,
    role: RoleName | None = None,
    parents: str | None = None,
    topics: str | None = None,
    output: Output = "table",
    target: RegistryTarget = THERE,
) -> None:
    """Give a node another role, other parents or topics; what is not named stays.

    The node goes on from where its logs end: nothing is lost or read twice.

        qanat edge move pos-17 --parents l3-2

    Parameters
    ----------
    node:
        The name of the node.
    role:
        Its role.
    parents:
        Its parents in the order in which they are tried, separated by commas; empty for none.
    topics:
        The topics that its pipe carries, separated by commas; `sales:store-17` is the records of one key.
    output:
        `table` for people, the others for programs.
    """
    found = next((one for one in target.nodes() if one["node"] == node), None)
    if found is None or not found["role"]:
        raise RegistryError(f"node {node} has no place yet: qanat edge register {node} gives it one")
    after = (
        role or str(found["role"]),
        ",".join(found["parents"]) if parents is None else parents,
        ",".join(found["topics"]) if topics is None else topics,
    )
    print_placed(put(target, node, *after), output)
