"""Share groups at work on a whole broker: locks, restarts, dead letters, delays, transactions, consumption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep, time

import pytest
from tests.servers.kafka.admin_requests import SET, change, create, delete, describe, topic
from tests.servers.kafka.raw import RawClient
from tests.servers.kafka.share_member import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    configure,
    given,
    held,
    produce,
    send,
)

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.testing import EmbeddedBroker
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages import alter_share_group_offsets as altering
from qanat.wire.kafka.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from qanat.wire.kafka.messages.end_txn import EndTxnRequest
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from qanat.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

TIMEOUT_S = 60.0
SETTINGS = {
    "group.share.record.lock.duration.ms": 1_000,
    "share.coordinator.state.topic.num.partitions": 2,
    "log.retention.check.interval.ms": 100,
}


def begin_transaction(client: RawClient, transactional_id: str, identity: tuple[int, int], of: str) -> None:
    partitions = [AddPartitionsToTxnTopic(of, [0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=partitions,
    )
    assert client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)


def set_offset(client: RawClient, group: str, offset: int) -> int:
    """The error of the group, or of the only partition."""
    rows = [altering.AlterShareGroupOffsetsRequestPartition(0, offset)]
    topics = [altering.AlterShareGroupOffsetsRequestTopic("orders", rows)]
    answer = client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, altering.AlterShareGroupOffsetsRequest(group, topics))
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


def until(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + TIMEOUT_S
    while not holds():
        assert monotonic() < deadline, "waited in vain"
        sleep(0.02)


class Scene:
    """A broker and connections to it."""

    def __init__(self, broker: EmbeddedBroker, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack
        self.client = self.connect()

    def connect(self) -> RawClient:
        return self._stack.enter_context(RawClient(self.broker.bootstrap_servers))

    def make(self, name: str = "orders", partitions: int = 1, **settings: str) -> str:
        (result,) = create(self.client, topic(name, partitions, 1, **{"retention_ms": "-1", **settings}))
        assert not result.error_code, result
        return name

    def member(self, name: str, group: str = "g", partitions: Iterable[int] = (0,)) -> Member:
        """On a connection of its own."""
        return Member(self.connect(), group, name, "orders", partitions)

    def begin(self, group: str = "g", **settings: object) -> None:
        """Let a group begin at the beginning."""
        configure(self.client, group, share_auto_offset_reset="earliest", **settings)

    def restart(self) -> None:
        self.broker.restart()
        self.client = self.connect()

    def log_start(self, of: str = "orders") -> int:
        asked = [ListOffsetsTopic(of, [ListOffsetsPartition(0, -1, -2)])]
        row = self.client.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, 0, asked)).topics[0].partitions[0]
        return int(row.offset)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(stack.enter_context(EmbeddedBroker(settings=SETTINGS)), stack)


# Beginning


def test_a_group_begins_at_the_end_by_default(scene: Scene) -> None:
    scene.make()
    produce(scene.client, "orders", b"old")
    late = scene.member("a")
    assert given(late.fetch()) == []
    produce(scene.client, "orders", b"new")
    assert late.take() == [(1, 1, 1)]
    scene.begin("other")
    assert scene.member("b", "other").take() == [(0, 1, 1)]


def test_offsets_are_set_before_the_group_has_its_first_member(scene: Scene) -> None:
    scene.make()
    produce(scene.client, "orders", *(b"%d" % number for number in range(20)))
    assert set_offset(scene.client, "new", 8) == 0
    described = scene.client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(["new"])).groups[0]
    assert (described.error_code, described.group_state, described.members) == (0, "Empty", [])
    scene.restart()
    assert scene.member("a", "new").take() == [(8, 19, 1)]


def test_no_offset_is_set_for_a_group_of_another_kind(scene: Scene) -> None:
    scene.make()
    offsets = [OffsetCommitRequestTopic("orders", bytes(16), [OffsetCommitRequestPartition(0, 0)])]
    scene.client.ask(ApiKey.OFFSET_COMMIT, 2, OffsetCommitRequest("classic", topics=offsets))
    assert set_offset(scene.client, "classic", 0) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_may_begin_so_long_ago(scene: Scene) -> None:
    scene.make()
    produce(scene.client, "orders", b"very old")
    send(scene.client, "orders", bytes(encode_batch([Record(0, int(time() * 1000), b"k", b"new")])))
    configure(scene.client, "g", share_auto_offset_reset="by_duration:PT1H")
    assert scene.member("a").take() == [(1, 1, 1)]


def test_a_beginning_that_is_none_is_refused(scene: Scene) -> None:
    answer = change(scene.client, "g", ("share.auto.offset.reset", SET, "by_duration:yesterday"), kind=GROUP)
    assert answer.error_code == ErrorCode.INVALID_CONFIG


def test_where_a_group_began_is_kept_before_any_record_is_accepted(scene: Scene) -> None:
    scene.make()
    assert given(scene.member("a").fetch()) == []
    produce(scene.client, "orders", b"while nobody looks")
    scene.restart()
    assert scene.member("b").take() == [(0, 0, 1)]


# Locks


def test_what_is_held_too_long_goes_to_another_member_that_waits(scene: Scene) -> None:
    scene.make()
    scene.begin()
    produce(scene.client, "orders", b"a", b"b")
    slow, other = scene.member("slow"), scene.member("other")
    assert slow.take() == [(0, 1, 1)]
    assert other.take() == [(0, 1, 2)]
    assert slow.acknowledge((0, 1, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    assert other.acknowledge((0, 1, [ACCEPT])) == 0


def test_what_a_lost_client_held_goes_to_another_at_once(scene: Scene) -> None:
    scene.make()
    scene.begin(share_record_lock_duration_ms=60_000)
    produce(scene.client, "orders", b"a")
    with RawClient(scene.broker.bootstrap_servers) as connection:
        assert Member(connection, "g", "dies", "orders").take() == [(0, 0, 1)]
    assert scene.member("other").take() == [(0, 0, 2)]


def test_a_lock_is_renewed_and_is_not_lost_while_it_is(scene: Scene) -> None:
    scene.make()
    scene.begin(share_record_lock_duration_ms=3_000)
    produce(scene.client, "orders", b"a")
    slow, other = scene.member("slow"), scene.member("other")
    assert slow.take() == [(0, 0, 1)]
    other.begin_fetch(wait_ms=4_800)
    for _ in range(4):
        sleep(1.2)
        assert slow.acknowledge((0, 0, [RENEW]), is_renew_ack=True) == 0
    assert given(other.end_fetch()) == []
    assert slow.acknowledge((0, 0, [ACCEPT])) == 0


def test_exactly_so_many_records_for_who_wants_that(scene: Scene) -> None:
    scene.make()
    scene.begin()
    produce(scene.client, "orders", *[b"v"] * 10)
    member = scene.member("a")
    assert member.take(most=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert member.take(most=3) == [(3, 9, 1)]


def test_a_fetch_that_waits_gets_what_is_written_meanwhile(scene: Scene) -> None:
    scene.make(partitions=3)
    scene.begin()
    member = scene.member("a", partitions=(0, 1, 2))
    member.fetch()
    member.begin_fetch(wait_ms=15_000)
    produce(scene.client, "orders", b"x", partition=2)
    assert [record.value for record in held(member.end_fetch())] == [b"x"]


# Restarts


def test_a_restart_of_the_broker_is_no_failed_delivery(scene: Scene) -> None:
    scene.make()
    scene.begin(share_delivery_count_limit=2)
    produce(scene.client, "orders", b"a")
    for _ in range(3):
        assert scene.member("a").take() == [(0, 0, 1)]
        scene.restart()
    assert scene.member("a").take() == [(0, 0, 1)]


def test_what_was_accepted_stays_so_and_deliveries_stay_counted_after_a_restart(scene: Scene) -> None:
    scene.make()
    scene.begin()
    produce(scene.client, "orders", *[b"v%d" % n for n in range(6)])
    member = scene.member("a")
    member.take()
    assert member.acknowledge((0, 5, [ACCEPT, RELEASE, ACCEPT, RELEASE, ACCEPT, REJECT])) == 0
    assert member.take() == [(1, 1, 2), (3, 3, 2)]
    assert member.acknowledge((1, 1, [RELEASE]), (3, 3, [ACCEPT])) == 0
    scene.restart()
    assert scene.member("b").take() == [(1, 1, 3)]


def test_state_is_kept_on_disk(tmp_path: Path) -> None:
    with ExitStack() as stack:
        scene = Scene(stack.enter_context(EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS)), stack)
        scene.make()
        scene.begin()
        produce(scene.client, "orders", b"a", b"b")
        member = scene.member("a")
        member.take()
        assert member.acknowledge((0, 0, [ACCEPT])) == 0
        assert member.leave() == 0
    with ExitStack() as stack:
        scene = Scene(stack.enter_context(EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS)), stack)
        assert scene.member("b").take() == [(1, 1, 1)]


def test_the_state_of_a_topic_goes_with_it(scene: Scene) -> None:
    scene.make()
    scene.begin()
    produce(scene.client, "orders", b"a")
    member = scene.member("a")
    member.take()
    delete(scene.client, "orders")
    answer = member.fetch()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    scene.make()
    produce(scene.client, "orders", b"another")
    assert scene.member("b").take() == [(0, 0, 1)]
    shares = scene.broker.node.broker.share_partitions
    until(
        lambda: all(
            key.topic_id != member.topic_id for shard in shares.states.topic.loaded() for key in shard.shard.states
        )
    )


# Delays and dead letters


def test_a_failed_record_is_kept_back_and_wakes_who_waits_for_it(scene: Scene) -> None:
    scene.make()
    scene.begin(share_redelivery_backoff_ms=700)
    produce(scene.client, "orders", b"a")
    member = scene.member("a")
    member.take()
    began = monotonic()
    assert member.acknowledge((0, 0, [RELEASE])) == 0
    assert given(member.fetch()) == []
    assert member.take() == [(0, 0, 2)]
    assert monotonic() - began >= 0.7


def test_a_rejected_record_lies_whole_in_the_dead_letter_topic(scene: Scene) -> None:
    scene.make()
    scene.begin(errors_deadletterqueue_topic_name="orders.dead")
    headers = (("trace", b"1"), ("empty", None))
    produce(scene.client, "orders", b"good", b"bad", headers=headers, codec=Codec.GZIP)
    member = scene.member("a")
    original = held(member.fetch())[1]
    assert member.acknowledge((0, 1, [ACCEPT, REJECT])) == 0
    (letter,) = scene.broker.wait_for("orders.dead", 1)
    assert (letter.key, letter.value, letter.timestamp) == (original.key, b"bad", original.timestamp)
    assert list(letter.headers) == [
        *headers,
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"1"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"rejected"),
        ("__dlq.errors.timestamp", str(original.timestamp).encode()),
    ]
    assert given(member.fetch()) == []


@pytest.mark.parametrize("name", ["no such name", "__consumer_offsets"])
def test_a_dead_letter_topic_that_cannot_be_is_refused(scene: Scene, name: str) -> None:
    answer = change(scene.client, "g", ("errors.deadletterqueue.topic.name", SET, name), kind=GROUP)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert name in (answer.error_message or "")


def test_a_record_that_fails_every_time_ends_in_the_dead_letter_topic(scene: Scene) -> None:
    scene.make()
    scene.begin(errors_deadletterqueue_topic_name="orders.dead", share_delivery_count_limit=2)
    produce(scene.client, "orders", b"poison", b"good")
    member = scene.member("a")
    member.take()
    assert member.acknowledge((0, 1, [RELEASE, ACCEPT])) == 0
    assert member.take() == [(0, 0, 2)]
    assert scene.broker.topics() == ["orders"]
    assert member.acknowledge((0, 0, [RELEASE])) == 0
    (letter,) = scene.broker.wait_for("orders.dead", 1)
    assert dict(letter.headers)["__dlq.errors.message"] == b"delivery count limit reached"
    assert (letter.value, dict(letter.headers)["__dlq.errors.delivery.count"]) == (b"poison", b"2")


def test_dead_letters_wait_for_their_topic_even_through_a_restart(scene: Scene) -> None:
    """The topic may not be made by itself here: an operator makes it, later."""
    with ExitStack() as stack:
        strict = {**SETTINGS, "auto.create.topics.enable": "false"}
        scene = Scene(stack.enter_context(EmbeddedBroker(settings=strict)), stack)
        scene.make()
        scene.begin(errors_deadletterqueue_topic_name="orders.dead")
        produce(scene.client, "orders", b"bad", b"good")
        member = scene.member("a")
        member.take()
        assert member.acknowledge((0, 1, [REJECT, ACCEPT])) == 0
        scene.restart()
        assert given(scene.member("b").fetch()) == []
        scene.make("orders.dead")
        (letter,) = scene.broker.wait_for("orders.dead", 1, TIMEOUT_S)
        assert letter.value == b"bad"


# What is not given out


def test_records_of_undecided_and_aborted_transactions_are_left_out_where_that_is_asked(scene: Scene) -> None:
    scene.make()
    scene.begin("careful", share_isolation_level="read_committed")
    scene.begin("careless")
    producer = scene.client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("t", 60_000))
    identity = (producer.producer_id, producer.producer_epoch)
    for number, is_committed in enumerate((False, True)):
        begin_transaction(scene.client, "t", identity, "orders")
        batch = encode_batch(
            [Record(0, 1, b"k", b"t%d" % number)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=number,
            is_transactional=True,
        )
        send(scene.client, "orders", bytes(batch), transactional_id="t")
        if is_committed:
            assert given(scene.member("early", "careful").fetch()) == []
        ended = scene.client.ask(ApiKey.END_TXN, 3, EndTxnRequest("t", *identity, committed=is_committed))
        assert not ended.error_code
    until(lambda: scene.broker.node.broker.partitions[TopicPartition("orders", 0)].log.last_stable_offset == 4)
    assert scene.member("a", "careful").take() == [(2, 2, 1)]
    assert scene.member("b", "careless").take() == [(0, 0, 1), (2, 2, 1)]


# Cleanup by consumption


def test_records_go_once_every_group_that_must_see_them_is_past_them(scene: Scene) -> None:
    scene.make(cleanup_policy="consume", consume_groups="g,h", segment_bytes="200", retention_ms="1")
    for group in ("g", "h"):
        scene.begin(group)
    for number in range(10):
        produce(scene.client, "orders", b"%d" % number)
    first, second = scene.member("a", "g"), scene.member("b", "h")
    for member in (first, second):
        while (ranges := member.take()) and ranges[-1][1] < 9:
            pass
    assert first.acknowledge((0, 7, [ACCEPT])) == 0
    assert scene.log_start() == 0
    assert second.acknowledge((0, 4, [ACCEPT]), (6, 9, [ACCEPT])) == 0
    until(lambda: scene.log_start() == 5)
    log = scene.broker.node.broker.partitions[TopicPartition("orders", 0)].log
    until(lambda: log.segments[0].base_offset > 0)
    assert log.segments[0].base_offset <= 5 == log.log_start_offset


def test_consumption_needs_to_know_whose(scene: Scene) -> None:
    (result,) = create(scene.client, topic("t", cleanup_policy="consume"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "consume.groups" in (result.error_message or "")


def test_settings_of_consumption_can_be_seen_and_changed(scene: Scene) -> None:
    scene.make(cleanup_policy="consume", consume_groups="g")
    assert not change(scene.client, "orders", ("consume.groups", 2, "h")).error_code
    assert {config.name: config.value for config in describe(scene.client, "orders", "consume.groups").configs} == {
        "consume.groups": "g,h"
    }
