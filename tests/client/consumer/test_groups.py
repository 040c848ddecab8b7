"""Groups: members come, go, die and dawdle; foreign clients are members beside ours."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from tests.client.consumer.topics import WAIT_S, new_topic, numbered, read, wait_until, write

from qanat.client import Consumer, TopicPartition
from qanat.client.errors import FencedError
from qanat.testing import EmbeddedBroker

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
PROTOCOLS = pytest.mark.parametrize("protocol", ["consumer", "classic", "cooperative"])


def member(broker: EmbeddedBroker, topic: str, protocol: str = "auto", **settings: object) -> Consumer:
    given: dict[str, object] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **settings}
    if protocol == "cooperative":
        given |= {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
    else:
        given["group_protocol"] = protocol
    return Consumer(broker.bootstrap_servers, topic, group=f"g-{topic}", **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[EmbeddedBroker]:
    """Members hear of a change soon."""
    with EmbeddedBroker(settings={"group.consumer.heartbeat.interval.ms": 200}) as broker:
        yield broker


@PROTOCOLS
def test_a_second_member_takes_its_part_and_gives_it_back(quick_broker: EmbeddedBroker, protocol: str) -> None:
    topic = new_topic(quick_broker, 4)
    with member(quick_broker, topic, protocol) as one:
        wait_until(lambda: len(one.assignment) == 4, lambda: one.poll(timeout_s=0.05))
        with member(quick_broker, topic, protocol) as two:

            def poll_both() -> None:
                one.poll(timeout_s=0.05)
                two.poll(timeout_s=0.05)

            wait_until(lambda: len(one.assignment) == len(two.assignment) == 2, poll_both)
            assert not one.assignment & two.assignment
        wait_until(lambda: len(one.assignment) == 4, lambda: one.poll(timeout_s=0.05))


@PROTOCOLS
def test_nothing_is_lost_or_doubled_while_members_come_and_go(quick_broker: EmbeddedBroker, protocol: str) -> None:
    topic = new_topic(quick_broker, 4)
    seen: list[bytes] = []
    is_over = threading.Event()

    def work(consumer: Consumer) -> None:
        with consumer:
            while not is_over.is_set():
                seen.extend(record.value for record in consumer.poll(50, timeout_s=0.05))

    workers = [threading.Thread(target=work, args=(member(quick_broker, topic, protocol),)) for _ in range(3)]
    for index, worker in enumerate(workers):
        worker.start()
        write(quick_broker.bootstrap_servers, topic, numbered(300, 300 * index))
        wait_until(lambda: len(seen) >= 300 * (index + 1))  # noqa: B023
    is_over.set()
    for worker in workers:
        worker.join(WAIT_S)

    assert sorted(seen, key=int) == numbered(900)


@pytest.mark.parametrize("protocol", ["auto", "classic"])
def test_confluent_is_a_member_of_the_same_group(quick_broker: EmbeddedBroker, protocol: str) -> None:
    topic = new_topic(quick_broker, 4)
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": quick_broker.bootstrap_servers,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
            **({"group.protocol": "consumer"} if protocol == "auto" else {"heartbeat.interval.ms": 200}),
        }
    )
    theirs.subscribe([topic])
    seen: list[bytes] = []

    def poll_both() -> None:
        seen.extend(record.value for record in ours.poll(timeout_s=0.05))
        seen.extend(message.value() or b"" for message in theirs.consume(500, 0.05) if not message.error())

    try:
        with member(quick_broker, topic, protocol) as ours:
            wait_until(lambda: len(ours.assignment) == len(theirs.assignment()) == 2, poll_both)
            write(quick_broker.bootstrap_servers, topic, numbered(400))
            wait_until(lambda: len(seen) >= 400, poll_both)
    finally:
        theirs.close()

    assert sorted(seen, key=int) == numbered(400)


def test_kafka_python_is_a_member_of_the_same_group(quick_broker: EmbeddedBroker) -> None:
    import kafka  # type: ignore[import-untyped]

    topic = new_topic(quick_broker, 4)
    theirs = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=quick_broker.bootstrap_servers,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    )
    seen: list[bytes] = []

    def poll_both() -> None:
        seen.extend(record.value for record in ours.poll(timeout_s=0.05))
        seen.extend(record.value for some in theirs.poll(50).values() for record in some)

    try:
        with member(quick_broker, topic, "classic") as ours:
            wait_until(lambda: len(ours.assignment) == len(theirs.assignment()) == 2, poll_both)
            write(quick_broker.bootstrap_servers, topic, numbered(400))
            wait_until(lambda: len(seen) >= 400, poll_both)
    finally:
        theirs.close()

    assert sorted(seen, key=int) == numbered(400)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_handler_of_three_poll_intervals_causes_no_rebalance(quick_broker: EmbeddedBroker, protocol: str) -> None:
    topic = new_topic(quick_broker, 1)
    write(quick_broker.bootstrap_servers, topic, numbered(3))
    lost: list[object] = []
    seen: list[int] = []
    settings: dict[str, object] = {"max_poll_interval_ms": 500, "session_timeout_ms": 6000, "on_lost": lost.append}
    with member(quick_broker, topic, protocol, on_revoked=lost.append, **settings) as consumer:
        for record in consumer:
            if record.offset == 1:
                before = consumer.group_metadata
                end_s = time.monotonic() + 1.5
                while time.monotonic() < end_s:
                    sum(range(10_000))  # It holds the GIL.
                assert consumer.health.is_late
                assert consumer.group_metadata == before
            seen.append(record.offset)
            if record.offset == 2:
                assert not consumer.health.is_late
                assert lost == []
                break

    assert seen == [0, 1, 2]


def test_a_revocation_waits_for_the_records_in_hand(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker, 2)
    write(quick_broker.bootstrap_servers, topic, numbered(100))
    revoked: list[list[TopicPartition]] = []
    with member(quick_broker, topic, "consumer", on_revoked=revoked.append) as one:
        mine = one.poll(10, timeout_s=WAIT_S)
        with member(quick_broker, topic, "consumer") as two:
            assert two.poll(timeout_s=1) == []
            assert revoked == []

            def poll_both() -> None:
                one.poll(timeout_s=0.05)
                two.poll(timeout_s=0.05)

            wait_until(lambda: len(one.assignment) == len(two.assignment) == 1, poll_both)
            assert len(mine) == 10
            assert [len(some) for some in revoked] == [1]


def test_a_removed_member_cannot_commit_and_joins_again(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker)
    write(quick_broker.bootstrap_servers, topic, numbered(10))
    lost: list[object] = []
    with member(quick_broker, topic, "classic", enable_auto_commit=False, on_lost=lost.append) as consumer:
        assert len(read(consumer, 10)) == 10
        quick_broker.expire_session(f"g-{topic}", consumer.group_metadata.member_id)
        with pytest.raises(FencedError, match="has moved on"):
            consumer.commit()
        assert len(read(consumer, 10)) == 10
        assert len(lost) == 1


def test_a_static_member_keeps_its_part_over_a_restart(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker, 2)
    with member(quick_broker, topic, "consumer", group_instance_id="a") as one:
        wait_until(lambda: len(one.assignment) == 2, lambda: one.poll(timeout_s=0.05))
        with member(quick_broker, topic, "consumer", group_instance_id="b") as two:

            def poll_both() -> None:
                one.poll(timeout_s=0.05)
                two.poll(timeout_s=0.05)

            wait_until(lambda: len(one.assignment) == len(two.assignment) == 1, poll_both)
            part = two.assignment
        with member(quick_broker, topic, "consumer", group_instance_id="b") as again:
            wait_until(lambda: bool(again.assignment), lambda: again.poll(timeout_s=0.05))
            assert again.assignment == part
            assert len(one.assignment) == 1


_VICTIM = """
import sys
from qanat.client import Consumer
with Consumer(sys.argv[1], sys.argv[2], group=sys.argv[3], auto_offset_reset="earliest",
              auto_commit_interval_ms=1, max_poll_records=7, session_timeout_ms=6000) as consumer:
    with open(sys.argv[4], "a", buffering=1) as done:
        for record in consumer:
            done.write(f"{record.partition} {record.offset}\\n")
"""


@pytest.mark.parametrize("seed", range(3))
def test_after_kill_9_no_unfinished_record_is_committed(
    quick_broker: EmbeddedBroker, tmp_path: Path, seed: int
) -> None:
    topic = new_topic(quick_broker, 2)
    write(quick_broker.bootstrap_servers, topic, numbered(30_000))
    done = tmp_path / "done"
    done.touch()
    group = f"g-{topic}"
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, quick_broker.bootstrap_servers, topic, group, str(done)])
    try:
        wait_until(lambda: done.stat().st_size > 500 + 20_000 * seed)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    handled = [TopicPartition(topic, int(line.split()[0])) for line in done.read_text().splitlines() if " " in line]
    judge = confluent_kafka.Consumer({"bootstrap.servers": quick_broker.bootstrap_servers, "group.id": group})
    wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(2)]
    committed = {one.partition: one.offset for one in judge.committed(wanted, WAIT_S)}
    judge.close()

    assert any(offset > 0 for offset in committed.values()) or seed == 0
    for number, offset in committed.items():
        assert offset <= handled.count(TopicPartition(topic, number))


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_reading_goes_on_after_a_restart_of_the_broker(tmp_path: Path, protocol: str) -> None:
    with EmbeddedBroker(data_dir=tmp_path, settings={"group.consumer.heartbeat.interval.ms": 200}) as broker:
        topic = new_topic(broker, 2)
        write(broker.bootstrap_servers, topic, numbered(100))
        with member(broker, topic, protocol) as consumer:
            first = read(consumer, 100)
            consumer.commit()
            broker.restart()
            write(broker.bootstrap_servers, topic, numbered(100, 100))
            second = read(consumer, 100)

    assert sorted(first, key=int) == numbered(100)
    assert sorted(set(second), key=int) == numbered(100, 100)


@pytest.mark.parametrize("api", ["Fetch", "ConsumerGroupHeartbeat", "OffsetFetch", "Metadata"])
def test_lost_answers_delay_and_lose_nothing(quick_broker: EmbeddedBroker, api: str) -> None:
    topic = new_topic(quick_broker, 2)
    write(quick_broker.bootstrap_servers, topic, numbered(100))
    quick_broker.lose_answer(api, times=2)
    try:
        with member(quick_broker, topic, "consumer", request_timeout_ms=1000) as consumer:
            assert sorted(read(consumer, 100), key=int) == numbered(100)
    finally:
        quick_broker.heal()


@pytest.mark.parametrize(("protocol", "api"), [("consumer", "ConsumerGroupHeartbeat"), ("classic", "Heartbeat")])
def test_health_names_a_coordinator_that_does_not_answer_until_it_does(
    quick_broker: EmbeddedBroker, protocol: str, api: str
) -> None:
    topic = new_topic(quick_broker)
    with member(quick_broker, topic, protocol) as consumer:
        write(quick_broker.bootstrap_servers, topic, numbered(1))
        assert len(read(consumer, 1)) == 1
        assert consumer.health.problem == ""
        quick_broker.drop(api, times=1000)
        try:
            wait_until(lambda: f"the coordinator of group g-{topic} does not answer" in consumer.health.problem)
        finally:
            quick_broker.heal()
        wait_until(lambda: consumer.health.problem == "")
