"""An outbox whose node is moved to another parent, and back again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.broker.edge.test_down_pipe import call, edge_node, url, wait_until
from tests.broker.edge.test_up_flow import is_idle, make_outbox, plant, sell, sender_of, sold

from qanat.app.node.node import Node


async def _sell_below(root: Node, child: Node, parent: str, first: int, end: int) -> None:
    """Move the node, sell there, and wait until that parent has it."""
    await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": [parent], "topics": ["no"]})
    up = child.broker.edge_node.up  # type: ignore[union-attr]
    await wait_until(lambda: up.parent is not None and up.parent.node == parent, f"the move to {parent}")
    await sell(child, first, end)
    await wait_until(
        lambda: is_idle(child) and sender_of(child).partition.log.log_start_offset == end, f"all is at {parent}"
    )


def test_a_node_that_is_moved_there_and_back_goes_on_where_it_is(tmp_path: Path) -> None:
    """The mark of a parent that it comes back to is behind: the other one has what came after, and said so."""

    async def run() -> None:
        async with edge_node(tmp_path, "root-1") as root, edge_node(tmp_path, "l2-1", url(root)) as middle:
            await plant(root)
            await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"], "topics": ["no"]})
            await call(middle, "POST", "/api/v1/topics", {"name": "all-sales", "configs": {"up.target": "all-sales"}})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await make_outbox(child)
                for number, parent in enumerate(("root-1", "l2-1", "root-1", "l2-1")):
                    await _sell_below(root, child, parent, 2 * number, 2 * number + 2)
            async with edge_node(tmp_path, "pos-1", url(root)) as child:  # It remembers after a restart.
                await _sell_below(root, child, "root-1", 8, 10)
            up = middle.broker.edge_node.up  # type: ignore[union-attr]
            await wait_until(lambda: bool(up.senders) and up.lag_records == 0, "all up from the middle")
            for _ in range(600):  # Markers of a committed transaction are written after its answer.
                found = await sold(root)
                if len(found) >= 10:
                    break
                await asyncio.sleep(0.1)
            assert sorted(found) == list(range(10))

    asyncio.run(run())
