"""A child whose own disk or store is full: a fault of its own, no parent's; it goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.broker.edge.test_down_pipe import AT, call, content, edge_node, root_with, url, wait_until, write

from qanat.app.node.node import Node
from qanat.edge import health
from qanat.edge.health import Health
from qanat.model.errors import DiskFullError, StoreUnavailableError


def _refuse_appends(child: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise DiskFullError("no room is left on the disk")

    monkeypatch.setattr(child.broker.runtime, "append_replicated", full)


def _refuse_commits(child: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of gaps and epochs lies in the store; an epoch must be raised before the next batch."""

    async def full(*_: Any) -> None:
        raise StoreUnavailableError("the database is full")

    assert child.broker.edge_node is not None
    monkeypatch.setattr(child.broker.edge_node.mirrors, "_raise_epoch", full)


@pytest.mark.parametrize("refuse", [_refuse_appends, _refuse_commits])
def test_a_full_disk_of_the_child_is_no_fault_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[Node, pytest.MonkeyPatch], None]
) -> None:
    async def run() -> None:
        async with root_with(tmp_path, 2) as root:
            await call(root, "PUT", "/api/v1/edge/nodes/l2-1", {"role": "L2", "parents": ["root-1"], "url": url(root)})
            await call(root, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": ["root-1", "l2-1"]})
            async with edge_node(tmp_path, "pos-1", url(root)) as child:
                await wait_until(lambda: content(child) == content(root), "two records")
                assert child.broker.edge_node is not None
                pipe = child.broker.edge_node.pipe
                switches = pipe.choice.switches
                with monkeypatch.context() as filled:
                    filled.setattr(health, "SILENCE_MAX_MS", 300)
                    refuse(child, filled)
                    await write(root, 2, 4)
                    await wait_until(lambda: pipe.failures >= 3, "three attempts")
                    assert "full" in pipe.last_fault or "no room" in pipe.last_fault
                    assert pipe.choice.switches == switches
                    assert pipe.choice.current is not None
                    assert pipe.choice.current.node == "root-1"
                    assert pipe.choice.health._state is Health.DEGRADED
                    assert child.broker.local_replicas.partitions[AT].log.end_offset == 2
                await wait_until(lambda: content(child) == content(root), "four records, by itself")
                await wait_until(lambda: pipe.last_fault == "", "no fault")

    asyncio.run(run())
