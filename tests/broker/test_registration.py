"""A broker that lost its registration, because it did not run for a while, registers again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.broker.metadata.registration import Membership
from qanat.cluster import keys
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Delete
from qanat.cluster.topics import CreateTopic

PATIENCE_S = 60.0


async def test_a_topic_is_made_though_the_only_broker_is_just_registering_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients would give up: they do not retry after the error that no broker is registered."""
    register, may_register = Membership._register, asyncio.Event()

    async def late(membership: Membership) -> None:
        await may_register.wait()
        await register(membership)

    told = {"data.dir": str(tmp_path / "data"), "port": 0}
    settings = load([flag(name, value, name) for name, value in told.items()], None, {}).settings
    async with asyncio.timeout(PATIENCE_S), Node(settings) as node:
        broker = node.broker
        monkeypatch.setattr(Membership, "_register", late)
        assert await broker.metadata.commit([], [Delete(keys.broker(broker.node_id))])
        assert broker.membership.epoch is None

        making = asyncio.create_task(
            broker.metadata_changes.create_topic(
                CreateTopic("orders", broker.metadata_changes.new_topic_id(), partitions=2)
            )
        )
        await asyncio.sleep(0.1)
        assert not making.done()
        may_register.set()

        outcome = await making
        assert not isinstance(outcome, Rejection), outcome
        assert broker.membership.epoch is not None
