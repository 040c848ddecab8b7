"""A broker that is taken for dead, because it was not let run for a while, and registers anew."""

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
    """Clients would give up: the answer that no broker is registered is none that they try again after."""
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

        making = asyncio.create_task(broker.create_topic(CreateTopic("orders", broker.new_topic_id(), partitions=2)))
        await asyncio.sleep(0.1)
        assert not making.done()
        may_register.set()

        outcome = await making
        assert not isinstance(outcome, Rejection), outcome
        assert broker.membership.epoch is not None
