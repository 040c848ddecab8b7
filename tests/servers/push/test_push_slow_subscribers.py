"""A subscriber that owes answers gets its next records in the late pass, a few at a time."""

from __future__ import annotations

import asyncio

from tests.servers.push.push_peer import PushPeer

from qanat.client import AsyncProducer
from qanat.edge.push_session import LAG_MS
from qanat.servers.push.subscription import LogSubscription
from qanat.testing import BrokerHere
from qanat.wire.push.control import Credit, Start, Subscribe

WAITING = 2_000


def subscription_of(broker: BrokerHere) -> LogSubscription:
    server = broker.node.push.server
    assert server is not None
    (found,) = (one.subscription for one in server._connections)
    assert isinstance(found, LogSubscription)
    return found


async def test_a_look_after_a_tick_sends_it_nothing_itself() -> None:
    """A hundred of them, which one tick gave all that they had credit for, held the event loop for a second."""
    async with (
        BrokerHere() as broker,
        PushPeer(broker) as consumer,
        AsyncProducer(broker.bootstrap_servers) as producer,
    ):
        await broker.create_topic("prices", partitions=1)
        await producer.send("prices", b"first")
        credit = Credit(WAITING + 1, 2**24)
        await consumer.ask(Subscribe(1, topics=["prices"], start=Start.EARLIEST, credit=credit))
        await consumer.record()
        subscription = subscription_of(broker)
        await asyncio.sleep(5 * LAG_MS / 1000)
        sends = [producer.send("prices", b"%d" % number) for number in range(WAITING)]
        await asyncio.gather(*sends)

        looks = 0
        while (before := subscription.session.credit.out_records) <= WAITING:
            subscription.tick()
            assert subscription.session.credit.out_records == before
            looks += 1
            await consumer.record()
        assert looks > 1
