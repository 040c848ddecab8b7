"""Client-side assignors: the two that every Kafka client has, and the encoding that members exchange.

`consuming.sticky_assignor` has the third, for cooperative rebalances.

`range` assigns each member a run of neighbouring partitions of every topic, `roundrobin` assigns all partitions
one by one. Members are sorted by their ids, so that every member would compute the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qanat.connection.consuming.sticky_assignor import Claim
from qanat.model.errors import MalformedMessageError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
    read_consumer_protocol_assignment,
    read_consumer_protocol_subscription,
    write_consumer_protocol_assignment,
    write_consumer_protocol_subscription,
)

Subscriptions = Mapping[str, Sequence[str]]
"""Topics by member."""
Assignments = dict[str, list[TopicPartition]]

_VERSION_SIZE = 2
_SUBSCRIPTION_VERSION_MAX = 3
_ASSIGNMENT_VERSION_MAX = 3
_OURS = 0
"""The version that we write: readers of later versions read it, too."""
_CLAIM = 2
"""The version of a subscription with owned partitions and their generation."""


def assign_range(subscriptions: Subscriptions, sizes: Mapping[str, int]) -> Assignments:
    """Runs of neighbours; where the numbers are not even, the first members have one more."""
    found: Assignments = {member: [] for member in sorted(subscriptions)}
    for topic, size in sorted(sizes.items()):
        members = [member for member in found if topic in subscriptions[member]]
        if not members:
            continue
        each, more = divmod(size, len(members))
        first = 0
        for index, member in enumerate(members):
            end = first + each + (index < more)
            found[member] += [TopicPartition(topic, partition) for partition in range(first, end)]
            first = end
    return found


def assign_round_robin(subscriptions: Subscriptions, sizes: Mapping[str, int]) -> Assignments:
    """One partition each, then the next; members that do not subscribe to a topic are skipped."""
    found: Assignments = {member: [] for member in sorted(subscriptions)}
    members = list(found)
    turn = 0
    for topic, size in sorted(sizes.items()):
        if not any(topic in topics for topics in subscriptions.values()):
            continue
        for partition in range(size):
            while topic not in subscriptions[members[turn % len(members)]]:
                turn += 1
            found[members[turn % len(members)]].append(TopicPartition(topic, partition))
            turn += 1
    return found


ASSIGNORS: Mapping[str, Callable[[Subscriptions, Mapping[str, int]], Assignments]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
}
"""Those that we offer a group, best first."""


def encode_subscription(topics: Sequence[str]) -> bytes:
    chunks = write_consumer_protocol_subscription(ConsumerProtocolSubscription(list(topics)), _OURS)
    return _OURS.to_bytes(_VERSION_SIZE) + b"".join(chunks)


def decode_subscription(content: bytes) -> list[str]:
    """The topics; raises `MalformedMessageError` where they cannot be read."""
    version = _version(content, _SUBSCRIPTION_VERSION_MAX)
    return read_consumer_protocol_subscription(memoryview(content), version, _VERSION_SIZE).topics


def encode_claim(claim: Claim) -> bytes:
    """A subscription with what the member owns, for cooperative rebalances."""
    owned: dict[str, list[int]] = {}
    for at in claim.owned:
        owned.setdefault(at.topic, []).append(at.partition)
    subscription = ConsumerProtocolSubscription(
        list(claim.topics),
        owned_partitions=[SubscriptionTopicPartition(topic, numbers) for topic, numbers in owned.items()],
        generation_id=claim.generation,
    )
    return _CLAIM.to_bytes(_VERSION_SIZE) + b"".join(write_consumer_protocol_subscription(subscription, _CLAIM))


def decode_claim(content: bytes) -> Claim:
    """The topics, and what the member owns as far as it says; raises `MalformedMessageError`."""
    version = _version(content, _SUBSCRIPTION_VERSION_MAX)
    found = read_consumer_protocol_subscription(memoryview(content), version, _VERSION_SIZE)
    owned = [TopicPartition(one.topic, number) for one in found.owned_partitions for number in one.partitions]
    return Claim(found.topics, owned, found.generation_id)


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for at in partitions:
        topics.setdefault(at.topic, []).append(at.partition)
    assigned = [AssignmentTopicPartition(topic, numbers) for topic, numbers in topics.items()]
    chunks = write_consumer_protocol_assignment(ConsumerProtocolAssignment(assigned), _OURS)
    return _OURS.to_bytes(_VERSION_SIZE) + b"".join(chunks)


def decode_assignment(content: bytes) -> list[TopicPartition]:
    """The partitions, none where nothing was sent; raises `MalformedMessageError` where it is not a consumer's."""
    if not content:
        return []
    version = _version(content, _ASSIGNMENT_VERSION_MAX)
    found = read_consumer_protocol_assignment(memoryview(content), version, _VERSION_SIZE)
    return [TopicPartition(one.topic, number) for one in found.assigned_partitions for number in one.partitions]


def described_assignment(content: bytes) -> list[TopicPartition]:
    """The same as a group's description shows it: none where it is of the members' own protocol."""
    try:
        return decode_assignment(content)
    except MalformedMessageError:
        return []


def _version(content: bytes, last: int) -> int:
    """Later versions only add fields, which need not be read."""
    if len(content) < _VERSION_SIZE:
        raise MalformedMessageError(f"{len(content)} bytes have no version")
    return min(int.from_bytes(content[:_VERSION_SIZE]), last)
