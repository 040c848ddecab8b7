"""What the simulation remembers sees what it is there to see, in histories made by hand."""

from __future__ import annotations

from msgspec.structs import replace
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.ledger import Ledger

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys, values
from qanat.cluster.store import Put
from qanat.cluster.values import NO_LEADER, Member, PartitionState

_TOPIC = values.Topic(name=TOPIC, topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=((0, 1, 2),))
_STATE = PartitionState(leader=0, leader_epoch=5, replicas=(0, 1, 2), in_sync=(Member(0, 1), Member(1, 1)))


async def _problems(*states: PartitionState) -> list[str]:
    """Of states that the store has taken one after another."""
    store = MemoryStore()
    await store.commit([], [Put(keys.topic(TOPIC), values.encode(_TOPIC))])
    ledger = Ledger([], store, TOPIC, is_synced=True)
    ledger.missing = lambda at, state: []  # type: ignore[method-assign]
    key = keys.partition(_TOPIC.identity, 0)
    return [problem for state in states for problem in ledger.stored([Put(key, values.encode(state))])]


async def test_states_that_follow_each_other_are_in_order() -> None:
    gone = replace(_STATE, leader=NO_LEADER, leader_epoch=6)
    back = replace(_STATE, leader=1, leader_epoch=7)

    assert await _problems(_STATE, replace(_STATE, in_sync=(Member(0, 1),)), gone, back) == []


async def test_an_epoch_that_goes_back_is_seen() -> None:
    (problem,) = await _problems(_STATE, replace(_STATE, leader_epoch=4))

    assert problem.startswith("a leader epoch goes back")


async def test_two_leaders_of_one_epoch_are_seen() -> None:
    (problem,) = await _problems(_STATE, replace(_STATE, leader=1))

    assert problem.startswith("two leaders of one epoch")


async def test_a_leader_that_is_not_in_sync_is_seen() -> None:
    (problem,) = await _problems(replace(_STATE, leader=2))

    assert problem.startswith("leads without being in sync")


async def test_other_keys_are_of_no_interest() -> None:
    store = MemoryStore()
    await store.commit([], [Put(keys.topic(TOPIC), values.encode(_TOPIC))])

    assert Ledger([], store, TOPIC, is_synced=True).stored([Put(keys.topic("other"), b"{}")]) == []


def test_c24_a_member_that_lacks_what_was_ever_committed_is_seen_though_its_leader_forgot() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.send(b"one") is not None
        await stage.whole_again()
        follower = stage.followers[0].node
        assert follower is not None
        state = replace(stage.state)
        assert stage._ledger.missing(AT, state) == []
        for other in stage.machines:
            stage.network.cut(stage.followers[0].host, other.host)
        await follower.broker.runtime.truncate(follower.broker.local_replicas.logs[AT], 0)

        (problem,) = stage._ledger.missing(AT, state)

        assert problem.startswith("lacks what is committed")
        stage.network.heal()
        await stage.whole_again()
        stage.report.problems.clear()

    play(script)
