"""How soon a removed rule ends subscriptions: brokers on a virtual clock, one that removes it and one that serves."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec.structs import replace
from tests.servers.push.push_peer import PushPeer

from qanat.adapters.memory_store import MemoryStore
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.broker import Broker
from qanat.cluster.topics import CreateTopic
from qanat.security.authentication import ANONYMOUS, Principal
from qanat.security.authorization import Operation, Resource
from qanat.servers.push.rights import LOOK_S, SPREAD_S, RightsWatch
from qanat.testing.faults import Faults
from qanat.testing.secured import change_rule, rule_of
from qanat.testing.simulated_broker import SimulatedBroker, use_clock
from qanat.testing.simulation.loop import SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.wire.push.control import Heartbeat, Mode, Subscribe
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType

EFFECTIVE_S = 0.5
"""Half of the second that is promised: `LOOK_S + SPREAD_S`, the way between the brokers, and of the last frame."""
BUSY, IDLE = "prices", "pauses"
RULES = (
    ("cluster-action", {"cluster": ""}),
    ("read", {"topic": "p*"}),
    ("write", {"topic": "p*"}),
    ("read", {"group": "g*"}),
)
SUBSCRIBERS = {Mode.ALL: 20, Mode.LOG: 2, Mode.QUEUE: 2}
"""On each of the topics; two groups that hand their partitions around do not tell more with many members."""
RECORD = encode_record(PushedRecord(0, -1, -1, -1, 0, None, b"v"))


class GuardedBroker(SimulatedBroker):
    """One whose authorizer decides by rules; everyone is `ANONYMOUS`."""

    def _settings(self) -> NodeSettings:
        settings = super()._settings()
        return replace(settings, security=replace(settings.security, authorizer_class_name="StandardAuthorizer"))


def simulated(work: Callable[[SimLoop], Coroutine[Any, Any, None]], seed: int) -> None:
    loop = SimLoop(seed)
    loop.network = SimNetwork(loop, seed)
    restore_clock = use_clock(loop)
    gc.disable()
    try:
        loop.run_until_complete(work(loop))
    finally:
        restore_clock()
        loop.abandon()
        gc.enable()


async def two_brokers(loop: SimLoop) -> tuple[Broker, Callable[[], RightsWatch[Any]]]:
    """Both lead a partition of each topic. Returns the first one, and what watches the rights at the second."""
    store, faults = MemoryStore(), Faults()
    nodes = []
    for number in (1, 2):
        one = GuardedBroker(loop, loop.network, store, faults, number, 2)
        await one.start()
        assert one.node is not None
        nodes.append(one.node)
    remover, serving = nodes[0].broker, nodes[1].push
    for operation, resource in RULES:
        await change_rule(remover, rule_of(ANONYMOUS.name, operation, resource, is_allowed=True), is_created=True)
    await asyncio.sleep(1)
    changes = remover.metadata_changes
    for topic in (BUSY, IDLE):
        wanted = CreateTopic(topic, changes.new_topic_id(), partitions=2, replication_factor=1)
        await changes.create_topic(wanted)

    def watch() -> RightsWatch[Any]:
        assert serving.server is not None, "it has push clients"
        return serving.server._rights

    return remover, watch


async def just_after_a_look(watch: RightsWatch[Any]) -> None:
    """When a change has to wait for the next look for the longest."""
    looks = watch._looks
    while watch._looks == looks:  # noqa: ASYNC110 - nobody is told of a look
        await asyncio.sleep(0.001)


async def keep_writing(address: str) -> None:
    async with PushPeer(address) as producer:
        await producer.ask(Heartbeat(1, topics=[BUSY]))
        while True:
            for _ in range(4):
                producer.send(FrameType.DATA, RECORD)
            await asyncio.sleep(0.25)


async def end_of(peer: PushPeer) -> tuple[float, bytes]:
    """When the subscription ends, and why; records are acknowledged until then."""
    while True:
        frame = await peer.frame()
        if frame.type == FrameType.DATA:
            peer.acknowledge(frame.id)
        elif frame.type == FrameType.DISCONNECT:
            return asyncio.get_running_loop().time(), bytes(frame.payload)


async def subscribe_all(peers: AsyncExitStack) -> list[asyncio.Task[tuple[float, bytes]]]:
    """Subscribers of every mode, at the second broker, on a busy topic and on one without records."""
    ends = []
    for mode, count in SUBSCRIBERS.items():
        for topic in count * [BUSY, IDLE]:
            peer = await peers.enter_async_context(PushPeer("broker-2:9092"))
            group = "" if mode is Mode.ALL else f"g-{topic}-{mode.value}"
            await peer.ask(Subscribe(1, topics=[topic], group=group, mode=mode))
            ends.append(asyncio.create_task(end_of(peer), name=mode.value))
    return ends


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_a_rule_that_one_broker_removes_ends_the_subscriptions_at_another(kind: str) -> None:
    async def story(loop: SimLoop) -> None:
        remover, watch = await two_brokers(loop)
        writing = asyncio.create_task(keep_writing("broker:9092"))
        async with AsyncExitStack() as peers:
            ends = await subscribe_all(peers)
            await asyncio.sleep(2 + loop.random.random())
            assert not any(one.done() for one in ends)
            await just_after_a_look(watch())
            name = {"topic": "p*"} if kind == "topic" else {"group": "g*"}
            began_s = loop.time()
            await change_rule(remover, rule_of(ANONYMOUS.name, "read", name, is_allowed=True), is_created=False)
            ended = [one for one in ends if kind == "topic" or one.get_name() != Mode.ALL.value]
            found = await asyncio.gather(*ended)
            assert [one.done() for one in ends] == [one in ended for one in ends], "others go on"
            for one in ends:
                one.cancel()
        writing.cancel()

        assert max(end_s for end_s, _ in found) - began_s <= EFFECTIVE_S
        assert all(b"not-authorized" in why or b"group-refused" in why for _, why in found)

    simulated(story, seed=7)


class Rules:
    """An authorizer whose rules change when a test says so."""

    def __init__(self) -> None:
        self.revision = 1

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        raise NotImplementedError

    allows_any = allows


class Moody:
    """An authorizer that may change its mind at any time."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        raise NotImplementedError


@pytest.mark.parametrize("changes", [1, 20])
def test_ten_thousand_subscribers_are_asked_within_the_bound_after_each_change(changes: int) -> None:
    async def story(loop: SimLoop) -> None:
        rules, asked = Rules(), dict.fromkeys(range(10_000), 0.0)

        def ask(member: int) -> None:
            asked[member] = loop.time()

        watch: RightsWatch[int] = RightsWatch(ask)
        for member in asked:
            watch.add(member, rules)
        for _ in range(changes):
            await asyncio.sleep(loop.random.random() * LOOK_S)
            rules.revision += 1
            changed_s = loop.time()
        await asyncio.sleep(1)
        watch.close()

        assert min(asked.values()) >= changed_s
        assert max(asked.values()) <= changed_s + LOOK_S + SPREAD_S + 0.01

    simulated(story, seed=1)


def test_frequent_changes_keep_no_subscriber_from_being_asked() -> None:
    async def story(loop: SimLoop) -> None:
        rules, asked = Rules(), dict.fromkeys(range(10_000), 0.0)
        longest: dict[int, float] = dict.fromkeys(asked, 0.0)

        def ask(member: int) -> None:
            longest[member] = max(longest[member], loop.time() - asked[member])
            asked[member] = loop.time()

        watch: RightsWatch[int] = RightsWatch(ask)
        for member in asked:
            watch.add(member, rules)
        for _ in range(60):
            await asyncio.sleep(0.05)
            rules.revision += 1
        watch.close()

        assert max(longest.values()) <= LOOK_S + 2 * SPREAD_S

    simulated(story, seed=1)


def test_an_authorizer_without_a_revision_is_asked_twice_a_second() -> None:
    async def story(loop: SimLoop) -> None:
        asked: list[float] = []
        watch: RightsWatch[str] = RightsWatch(lambda _: asked.append(loop.time()))
        watch.add("subscriber", Moody())
        await asyncio.sleep(10)
        watch.discard("subscriber")
        before = len(asked)
        await asyncio.sleep(10)

        assert before >= 20
        assert len(asked) == before
        watch.close()

    simulated(story, seed=1)
