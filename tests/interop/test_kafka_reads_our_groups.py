"""Groups of the new protocol and share groups: Kafka's own tool reads what we write, and we read what Kafka writes."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.groups.consumers import ClassicConsumer, Consumer, beat, join
from tests.groups.shell import SECOND, Entry, Shell, subscription
from tools.kafka_broker import KafkaBroker
from tools.kafka_dump import LIMIT_SECONDS, TOOL
from tools.kafka_jars import java_command
from verify.conformance.play import Play

from qanat.groups.consumer.records import ConsumerGroupRecord, CurrentAssignmentRecord
from qanat.groups.record_codec import decode_record
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import Protocol, ShareHeartbeat
from qanat.wire.batch_header import split_batches
from qanat.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, decode_records, encode_batch

pytestmark = pytest.mark.long

_PART = re.compile(r"(?:key|payload): (\{.*?\})(?= payload:|$)")


def eventful() -> Shell:
    """A group in whose life every kind of record is written, and taken back."""
    shell, classic = Shell(), ClassicConsumer(Protocol("range", subscription("orders")))
    for _ in range(4):
        call = classic.act(shell)
        shell.advance(0)
        classic.hear(call.replies[0], shell)
    static = Consumer("s", "orders", instance_id="one")
    finder = Consumer("f", expression="or.*")
    for _ in range(4):
        for member in (static, finder):
            member.let_go()
            member.hear(shell.ask(member.next_beat(), AssignmentReply))
        shell.advance(SECOND)
    for request in (beat("s", -2, instance_id="one"), join("s2", instance_id="one"), beat("f", -1)):
        shell.ask(request, AssignmentReply)
    for member_id, epoch, topics in (("w", 0, ("orders", "payments")), ("v", 0, ("orders",)), ("w", -1, None)):
        shell.ask(ShareHeartbeat("crew", member_id, epoch, "r", topics), AssignmentReply)
    return shell


def test_kafka_understands_every_record_that_we_write(kafka_jars: Path, tmp_path: Path) -> None:
    shell = eventful()
    entries = [entry for entry in shell.log if isinstance(entry, Entry)]
    records = [Record(number, 1_000, entry.key, entry.value) for number, entry in enumerate(entries)]
    file = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    file.parent.mkdir()
    file.write_bytes(encode_batch(records))
    command = java_command(kafka_jars, TOOL, "-XX:TieredStopAtLevel=1")
    arguments = ["--offsets-decoder", "--print-data-log", "--files", str(file)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)

    lines = [line for line in done.stdout.splitlines() if line.startswith("| offset:")]
    parts = [[json.loads(part) for part in _PART.findall(line)] for line in lines]
    assert len(parts) == len(records)
    assert all(len(found) == 2 or records[number].value is None for number, found in enumerate(parts)), lines
    kinds = Counter(int(found[0]["type"]) for found in parts)
    assert [kind for kind in (2, 3, 5, 6, 7, 8, *range(10, 17)) if not kinds[kind]] == []
    worker = next(found for found in parts if found[0]["type"] == "10" and found[0]["data"]["memberId"] == "w")
    assert (worker[1]["data"]["rackId"], worker[1]["data"]["subscribedTopicNames"]) == ("r", ["orders", "payments"])
    topics = next(found for found in parts if found[0]["type"] == "15")[1]["data"]["initializedTopics"]
    assert [(one["topicName"], one["partitions"]) for one in topics] == [
        ("orders", list(range(8))),
        ("payments", list(range(8))),
    ]
    (member,) = [found for found in parts if found[0]["type"] == "5" and found[0]["data"]["memberId"] == "s2"]
    assert member[1]["data"]["instanceId"] == "one"
    assert member[1]["data"]["subscribedTopicNames"] == ["orders"]
    classic = [
        bool(one[1]["data"]["classicMemberMetadata"]) for one in parts if one[0]["type"] == "5" and len(one) == 2
    ]
    assert Counter(classic)[True] > 0, "the member of before the new protocol"
    assert member[1]["data"]["classicMemberMetadata"] is None


def test_we_understand_what_kafka_writes(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path, features=("share.version=1",))
    with broker.running():
        play = Play(broker.address, "interop")
        topic = CreatableTopic("orders", 4, 1)
        play.quietly(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([topic], 10_000, False))
        play.until(lambda: not play.quietly(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g", 0)).error_code)

        def beats(member_id: str, epoch: int, **fields: Any) -> Any:
            request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
            return play.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

        first: dict[str, Any] = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["orders"]}
        play.until(lambda: not beats("a", 0, topic_partitions=[], **first).error_code)
        beats("b", 0, topic_partitions=[], instance_id="one", subscribed_topic_regex="or.*", **first)
        beats("a", 1)
        work = ShareGroupHeartbeatRequest("crew", "w", 0, subscribed_topic_names=["orders"])

        def is_at_work() -> bool:
            answer = play.quietly(ApiKey.SHARE_GROUP_HEARTBEAT, 1, work)
            work.member_epoch = answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        play.until(is_at_work)
        play.close()
    log = broker.data / "__consumer_offsets-0" / "00000000000000000000.log"
    shell = Shell()
    for batch in split_batches(memoryview(log.read_bytes())):
        for record in decode_records(batch, 1_000_000):
            shell.log.append(Entry(record.key or b"", record.value))
    shell.log = [entry for entry in shell.log if isinstance(entry, Entry) and decode_record(entry.key, entry.value)]
    shell.durable = len(shell.log)
    shell.load()

    group = shell.shard.ledger.consumers["g"]
    assert list(group.members) == ["a", "b"]
    assert (group.members["b"].instance_id, group.members["b"].expression) == ("one", "or.*")
    assert group.epoch >= 2
    assert [len(group.current_of(member).assigned) for member in ("a", "b")] == [2, 0], "a is letting go of two"
    assert len(group.current_of("a").revoking) == 2
    crew = shell.shard.ledger.shares["crew"]
    assert (list(crew.members), crew.state, crew.epoch) == (["w"], "Stable", work.member_epoch)
    assert [at.partition for at in crew.current_of("w").assigned] == [0, 1, 2, 3]
    assert [(one.name, one.partitions) for one in crew.topics.values()] == [("orders", (0, 1, 2, 3))]
    kinds = {type(record) for record in shell.records}
    assert kinds >= {ConsumerGroupRecord, CurrentAssignmentRecord}
