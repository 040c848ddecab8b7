"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: on one broker there is little to move."""

from __future__ import annotations

from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from qanat.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_topic

ELECT, MOVE, LIST = (
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
UNCLEAN_FROM = 1


def elected(kind: int, *topics: tuple[str, list[int]]) -> ElectLeadersRequest:
    return ElectLeadersRequest(kind, [TopicPartitions(*topic) for topic in topics], 10_000)


def moved(name: str, number: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        10_000, topics=[ReassignableTopic(name, [ReassignablePartition(number, replicas)])]
    )


@conversation
def elect_leaders_in_every_version(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    for version in play.versions(ELECT):
        play.exchange(ELECT, version, elected(0, (topic, [0, 1])), "nothing to do")
        play.exchange(ELECT, version, elected(0, (topic, [7])), "a partition that is not there")
        play.exchange(ELECT, version, elected(0, ("no-such-topic", [0])), "a topic that is not there")
        if version >= UNCLEAN_FROM:
            play.exchange(ELECT, version, elected(1, (topic, [0])), "unclean, with a leader")


@conversation
def reassignments_in_every_version(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    for version in play.versions(MOVE):
        for note, number, replicas in (
            ("where it is", 0, [1]),
            ("to a stranger", 0, [77]),
            ("to nobody", 0, []),
            ("twice to one", 0, [1, 1]),
            ("nothing to cancel", 0, None),
            ("a partition that is not there", 9, [1]),
        ):
            play.exchange(MOVE, version, moved(topic, number, replicas), note)
        play.exchange(MOVE, version, moved("no-such-topic", 0, [1]), "a topic that is not there")
    for version in play.versions(LIST):
        play.exchange(LIST, version, ListPartitionReassignmentsRequest(10_000, None), "all")
        some = [ListPartitionReassignmentsTopics(topic, [0, 9]), ListPartitionReassignmentsTopics("no-such-topic", [0])]
        play.exchange(LIST, version, ListPartitionReassignmentsRequest(10_000, some), "some")
