"""`qanat edge retire`: a node leaves the tree."""

from __future__ import annotations

from urllib.parse import quote

from qanat.app.edge.registry_calls import THERE, RegistryTarget


def retire(node: str, *, force: bool = False, target: RegistryTarget = THERE) -> None:
    """Remove a node from the tree; its name is free again. The broker keeps its records, and its last topology.

        qanat edge retire pos-17

    Parameters
    ----------
    node:
        The name of the node.
    force:
        Whether to remove it from the parents of its children as well, where it has any.
    """
    target.call("DELETE", f"/api/v1/edge/nodes/{quote(node, safe='')}?force={'true' if force else 'false'}")
    print(f"{node} is retired")
