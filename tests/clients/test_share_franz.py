"""franz-go's share consumer, which asks for ShareFetch 2: accept, release and reject, with the count of deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.clients.go_clients import FranzGo
from tests.clients.test_share_consumer import GROUP, configure
from tests.fetching import Unavailable

from qanat.testing import EmbeddedBroker

TIMEOUT_S = 40.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"group.share.heartbeat.interval.ms": 200, "share.coordinator.state.topic.num.partitions": 3}
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def franz(broker: EmbeddedBroker) -> Iterator[FranzGo]:
    try:
        client = FranzGo(broker.bootstrap_servers)
    except Unavailable as reason:
        pytest.skip(f"franz-go is not tried: {reason}")
    yield client
    client.close()


def gathered(franz: FranzGo, member: str, verdict: str, is_enough: Callable[[list[str]], bool]) -> list[str]:
    """What a worker gets, as value/deliveries, saying the same of all of it, until it is enough."""
    found: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not is_enough(found):
        assert time.monotonic() < deadline, found
        found += franz.ask("work", member=member, value=verdict)
    return found


def test_what_is_released_comes_again_and_what_is_accepted_or_rejected_does_not(
    broker: EmbeddedBroker, franz: FranzGo
) -> None:
    broker.create_topic("orders", 1)
    configure(broker)
    franz.produce("orders", ["a", "b", "c"])
    franz.ask("share", member="1", group=GROUP, topic="orders")
    released = gathered(franz, "1", "release", lambda found: len(found) >= 3)
    accepted = gathered(franz, "1", "accept", lambda found: len(found) >= 3)
    franz.produce("orders", ["d"])
    rejected = gathered(franz, "1", "reject", lambda found: found != [])
    franz.produce("orders", ["e"])
    last = gathered(franz, "1", "accept", lambda found: found != [])
    franz.ask("stop_working", member="1")

    assert released[:3] == ["a/1", "b/1", "c/1"]
    assert [one.partition("/")[0] for one in accepted] == ["a", "b", "c"]
    assert all(int(one.partition("/")[2]) >= 2 for one in accepted)
    assert (rejected, last) == (["d/1"], ["e/1"])


def test_two_workers_share_a_topic_and_nothing_is_done_twice(broker: EmbeddedBroker, franz: FranzGo) -> None:
    broker.create_topic("orders", 2)
    configure(broker)
    for member in ("1", "2"):
        franz.ask("share", member=member, group=GROUP, topic="orders")
    franz.produce("orders", [str(number) for number in range(100)])
    done: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(done) < 100:
        assert time.monotonic() < deadline, len(done)
        for member in ("1", "2"):
            done += franz.ask("work", member=member, value="accept")
    for member in ("1", "2"):
        franz.ask("stop_working", member=member)

    assert sorted(done) == sorted(f"{number}/1" for number in range(100))
