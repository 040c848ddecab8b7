"""All conversations by name, and their common parts: topics, batches, members of groups."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch
from verify.conformance.play import CLOSED, Play

Conversation = Callable[[Play], None]

CONVERSATIONS: dict[str, Conversation] = {}
SECURED: set[str] = set()
"""The conversations with a broker whose clients authenticate, and that has an authorizer."""
START_MS = 1_750_000_000_000
"""The timestamp of the first record of every conversation."""


def conversation(function: Conversation) -> Conversation:
    """Register a conversation under its function's name."""
    name = function.__name__.replace("_", "-")
    assert name not in CONVERSATIONS, name
    CONVERSATIONS[name] = function
    return function


def secured_conversation(function: Conversation) -> Conversation:
    """Register a conversation with a secured broker."""
    SECURED.add(function.__name__.replace("_", "-"))
    return conversation(function)


def load() -> dict[str, Conversation]:
    """Every conversation of every module."""
    here = Path(__file__).parent
    for path in sorted((here / "conversations").rglob("[a-z]*.py")):
        import_module(f"verify.conformance.{'.'.join(path.relative_to(here).with_suffix('').parts)}")
    return CONVERSATIONS


def play_of(address: str, name: str) -> Play:
    return Play(address, name, is_secured=name in SECURED)


def hold(play: Play) -> None:
    """Hold one conversation from beginning to end."""
    try:
        CONVERSATIONS[play.name](play)
    finally:
        play.close()


# Topics


def make_topic(play: Play, suffix: str = "t", partitions: int = 1, **settings: str) -> str:
    """Create a topic and wait until it serves, without recording it."""
    name = f"{play.name}-{suffix}"
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    topic = CreatableTopic(name, partitions, 1, [], configs)
    answer = play.quietly(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([topic], 10_000, False))
    assert answer.topics[0].error_code == 0, answer
    await_topic(play, name, partitions)
    return name


def look_up(play: Play, name: str) -> MetadataResponseTopic:
    """The metadata of a topic; the request does not create it."""
    request = MetadataRequest([MetadataRequestTopic(name=name)], False)
    topic: MetadataResponseTopic = play.quietly(ApiKey.METADATA, 12, request).topics[0]
    return topic


def await_topic(play: Play, name: str, partitions: int) -> None:
    def answers() -> bool:
        topic = look_up(play, name)
        if topic.error_code or len(topic.partitions) != partitions:
            return False
        asked = [ListOffsetsPartition(number, -1, -1) for number in range(partitions)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, asked)])
        rows = play.quietly(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions
        return not any(row.error_code for row in rows)

    play.until(answers)


def await_absence(play: Play, name: str) -> None:
    play.until(lambda: look_up(play, name).error_code != 0)


def topic_id(play: Play, name: str) -> bytes:
    return look_up(play, name).topic_id


# Records


def batch(*values: bytes | None, codec: Codec = Codec.NONE, start_ms: int = START_MS, **fields: Any) -> bytes:
    """A batch of records k0, k1, … with these values, ten milliseconds apart."""
    records = [
        Record(number, start_ms + 10 * number, b"k%d" % number, value) for number, value in enumerate(values or (b"v",))
    ]
    return bytes(encode_batch(records, codec=codec, **fields))


def produce_request(
    name: str, records: bytes | None, partition: int = 0, acks: int = -1, identity: bytes = bytes(16)
) -> ProduceRequest:
    data = PartitionProduceData(partition, None if records is None else memoryview(records))
    return ProduceRequest(None, acks, 5_000, [TopicProduceData(name, identity, [data])])


def fill(play: Play, name: str, *batches: bytes, partition: int = 0) -> None:
    """Produce batches without recording it."""
    for one in batches:
        answer = play.quietly(ApiKey.PRODUCE, 9, produce_request(name, one, partition))
        assert answer != CLOSED
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def fetch_request(
    name: str,
    offset: int = 0,
    partition: int = 0,
    *,
    identity: bytes = bytes(16),
    max_bytes: int = 1_000_000,
    partition_max_bytes: int = 1_000_000,
    **fields: Any,
) -> FetchRequest:
    """A fetch of one partition that does not wait, and is no part of a session."""
    asked = FetchPartition(partition, -1, offset, partition_max_bytes=partition_max_bytes)
    settings = {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, **fields}
    return FetchRequest(max_bytes=max_bytes, topics=[FetchTopic(name, identity, [asked])], **settings)


def make_group(play: Play, suffix: str = "g") -> str:
    """A group id whose coordinator serves, without recording it."""
    group_id = f"{play.name}-{suffix}"

    def is_found() -> bool:
        answer = play.quietly(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(group_id, 0))
        described = play.quietly(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group_id]))
        return not answer.error_code and not described.groups[0].error_code

    play.until(is_found)
    return group_id


def await_producer_ids(play: Play) -> None:
    """Wait until a broker that has just started has its first block of producer ids."""
    request = InitProducerIdRequest(None, 60_000)
    play.until(lambda: not play.quietly(ApiKey.INIT_PRODUCER_ID, 4, request).error_code)
