"""Queue consumers on a real broker: every record is handled, locks are renewed, lost ones are told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer
from tests.client.queue.queues import PATIENCE_S, Queue, take, until

from qanat.client import (
    AsyncQueueConsumer,
    ClosedError,
    FencingToken,
    IoLoop,
    LockLostError,
    QueueConsumer,
    Record,
    SerializationError,
    UndecodableRecordError,
    UnknownSettingError,
    Verdict,
)
from qanat.model.dead_letters import parse_letter
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, QanatError
from qanat.model.ids import TopicPartition
from qanat.testing import EmbeddedBroker

LOCK_S = 2.0


async def test_records_come_once_and_accepted_ones_never_again(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(1000)), headers=[("trace", b"1")])
    async with queue.consumer(max_poll_records=100) as consumer:
        found = await take(consumer, 1000)
        for record in found:
            await consumer.acknowledge(record)
        await consumer.flush()
        assert await consumer.poll(timeout_s=0.3) == []
    async with queue.consumer() as another:
        assert await another.poll(timeout_s=1.0) == []

    assert sorted(int(record.value) for record in found) == list(range(1000))
    assert {record.delivery_count for record in found} == {1}
    assert found[0].headers == (("trace", b"1"),)


async def test_a_process_that_was_stopped_hands_out_nothing_whose_lock_is_over(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(10)))
    async with queue.consumer(io=IoLoop.here()) as consumer:
        seen = await take(consumer, 1)
        await until(lambda: consumer._member is not None and consumer._member._buffered >= 4)
        # As by SIGSTOP: neither the loop nor its timers run, and the broker gives the records to others meanwhile.
        time.sleep(LOCK_S + 0.2)  # noqa: ASYNC251
        seen += await take(consumer, 10)
        after = seen[1:]
        for record in after:
            await consumer.acknowledge(record)
        await consumer.flush()

    assert {record.delivery_count for record in after if record.partition == seen[0].partition} == {2}
    assert sorted(int(record.value) for record in after) == list(range(10))


async def test_a_released_record_comes_again_and_a_rejected_one_is_a_dead_letter(queue: Queue) -> None:
    queue.configure(**{"errors.deadletterqueue.topic.name": f"{queue.topic}.dead"})
    queue.produce(b"again", b"never")
    async with queue.consumer() as consumer:
        first = {bytes(record.value): record for record in await take(consumer, 2)}
        await consumer.acknowledge(first[b"again"], Verdict.RELEASE)
        await consumer.acknowledge(first[b"never"], Verdict.REJECT)
        (second,) = await take(consumer, 1)
        await consumer.acknowledge(second)
        await consumer.flush()
        (dead,) = await asyncio.to_thread(queue.broker.wait_for, f"{queue.topic}.dead", 1)

    assert (second.value, second.delivery_count) == (b"again", 2)
    letter = parse_letter(dead.headers)
    assert letter is not None
    assert (dead.value, letter.origin.topic, letter.origin.message) == (b"never", queue.topic, "rejected")


async def test_a_handler_of_three_times_the_lock_is_run_once(queue: Queue) -> None:
    queue.produce(b"long")
    async with queue.consumer() as consumer, queue.consumer() as rival:
        holder, record = await take_from_either(consumer, rival)
        other = rival if holder is consumer else consumer
        deadline = asyncio.get_running_loop().time() + 3 * LOCK_S
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            assert await other.poll(timeout_s=left) == []
        await holder.acknowledge(record)
        await holder.flush()
        assert await other.poll(timeout_s=0.5) == []


async def take_from_either(*consumers: AsyncQueueConsumer) -> tuple[AsyncQueueConsumer, Record[bytes, bytes]]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for consumer in consumers:
                for record in await consumer.poll(timeout_s=0.1):
                    return consumer, record


async def test_a_busy_event_loop_does_not_cost_the_lock(queue: Queue) -> None:
    queue.produce(b"busy")
    async with queue.consumer() as consumer:
        (record,) = await take(consumer, 1)
        time.sleep(2 * LOCK_S)  # noqa: ASYNC251 - a handler that blocks the user's loop
        await consumer.acknowledge(record)
        await consumer.flush()


async def test_without_renewal_a_late_verdict_is_refused_and_the_hook_told(queue: Queue) -> None:
    queue.produce(b"late")
    lost: list[tuple[TopicPartition, int, str]] = []
    async with queue.consumer(lock="manual", on_lock_lost=lambda *told: lost.append(told)) as consumer:
        (record,) = await take(consumer, 1)
        token = consumer.fencing_token(record)
        (again,) = await take(consumer, 1)
        await until(lambda: bool(lost))
        newer = consumer.fencing_token(again)
        await consumer.acknowledge(again)
        with pytest.raises(LockLostError, match="is not locked for this consumer"):
            await consumer.acknowledge(record)
        await consumer.flush()

    assert lost[0][:2] == (TopicPartition(queue.topic, 0), 0)
    assert again.delivery_count == 2
    assert isinstance(token, FencingToken)
    assert newer > token


async def test_a_manual_renewal_keeps_the_lock(queue: Queue) -> None:
    queue.produce(b"mine")
    async with queue.consumer(lock="manual") as consumer:
        (record,) = await take(consumer, 1)
        for _ in range(6):
            assert await consumer.poll(timeout_s=LOCK_S / 3) == []
            await consumer.acknowledge(record, Verdict.RENEW)
        await consumer.acknowledge(record)
        await consumer.flush()


async def test_renewal_ends_with_the_timeout(queue: Queue) -> None:
    queue.produce(b"stuck")
    lost = asyncio.Event()
    async with queue.consumer(timeout_s=0.5, on_lock_lost=lambda *_: lost.set()) as consumer:
        (record,) = await take(consumer, 1)
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
        with pytest.raises(LockLostError):
            await consumer.acknowledge(record)
        (again,) = await take(consumer, 1)
        await consumer.acknowledge(again)
    assert again.delivery_count == 2


async def test_a_close_sends_verdicts_and_releases_the_rest_at_once(queue: Queue) -> None:
    queue.produce(b"done", b"open")
    async with queue.consumer() as consumer:
        for record in await take(consumer, 2):
            if record.value == b"done":
                await consumer.acknowledge(record)
    began = asyncio.get_running_loop().time()
    async with queue.consumer() as another:
        (left,) = await take(another, 1)
        await another.acknowledge(left)
    assert left.value == b"open"
    assert asyncio.get_running_loop().time() - began < PATIENCE_S / 2


@pytest.mark.long  # A broker waits 45 s for a member of a share group.
async def test_records_of_a_killed_consumer_are_handled_by_another(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(20)))
    program = (
        "import sys\nfrom qanat.client import QueueConsumer\n"
        "with QueueConsumer(sys.argv[1], sys.argv[2], group=sys.argv[3]) as queue:\n"
        "    held = []\n"
        "    while len(held) < 20:\n"
        "        held += queue.poll()\n"
        "    queue.acknowledge(held[0])\n"
        "    queue.flush()\n"
        "    print(held[0].value.decode(), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", program, queue.broker.bootstrap_servers, queue.topic, queue.group]
    pipe = asyncio.subprocess.PIPE
    killed = await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe)
    assert killed.stdout is not None
    done = await asyncio.wait_for(killed.stdout.readline(), PATIENCE_S)
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    async with queue.consumer() as survivor:
        found = await take(survivor, 19)
        for record in found:
            await survivor.acknowledge(record)
    assert {int(record.value) for record in found} == set(range(20)) - {int(done)}


async def test_several_members_share_the_work_and_no_record_is_handled_twice(queue: Queue) -> None:
    count = 3000
    queue.produce(*(b"%d" % number for number in range(count)))
    handled: Counter[int] = Counter()
    share: Counter[int] = Counter()

    async def work(number: int) -> None:
        async with queue.consumer(max_poll_records=50, prefetch_records=50) as consumer:
            while handled.total() < count:
                for record in await consumer.poll(timeout_s=0.2):
                    handled[int(record.value)] += 1
                    share[number] += 1
                    await consumer.acknowledge(record)
                await consumer.flush()

    await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(3))), PATIENCE_S)
    assert handled == Counter(range(count))
    assert len(share) > 1


async def test_a_broken_connection_loses_the_locks_and_the_work_goes_on(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(10)))
    lost: list[int] = []
    async with queue.consumer(on_lock_lost=lambda partition, offset, reason: lost.append(offset)) as consumer:
        first = await take(consumer, 10)
        queue.broker.drop("ShareFetch")
        await until(lambda: len(lost) == 10)
        with pytest.raises(LockLostError):
            await consumer.acknowledge(first[0])
        again = await take(consumer, 10)
        with pytest.raises(LockLostError):
            await consumer.acknowledge(first[0])
        with pytest.raises(LockLostError):
            consumer.fencing_token(first[0])
        for record in again:
            await consumer.acknowledge(record)
        await consumer.flush()
    assert {record.delivery_count for record in again} == {2}


async def test_a_forgotten_session_is_begun_again_and_keeps_its_locks(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(10)))
    async with queue.consumer() as consumer:
        found = await take(consumer, 10)
        refusal = queue.broker.fail("ShareFetch", ErrorCode.SHARE_SESSION_NOT_FOUND)
        await until(lambda: refusal.is_over)
        for record in found:
            await consumer.acknowledge(record)
        await consumer.flush()
        assert await consumer.poll(timeout_s=0.5) == []


async def test_a_restart_of_the_broker_is_survived(tmp_path: Path) -> None:
    settings = {"group.share.heartbeat.interval.ms": 200, "share.coordinator.state.topic.num.partitions": 3}
    with EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker:
        queue = Queue.made(broker, "restarted")
        queue.produce(*(b"%d" % number for number in range(40)))
        async with queue.consumer(max_poll_records=10, prefetch_records=10) as consumer:
            first = await take(consumer, 20)
            for record in first[:10]:
                await consumer.acknowledge(record)
            await consumer.flush()
            await asyncio.to_thread(broker.restart)
            done = {int(record.value) for record in first[:10]}
            async with asyncio.timeout(PATIENCE_S):
                while len(done) < 40:
                    for record in await consumer.poll():
                        done.add(int(record.value))
                        with contextlib.suppress(LockLostError):
                            await consumer.acknowledge(record)
            with contextlib.suppress(LockLostError):
                await consumer.flush()
    assert done == set(range(40))


async def test_librdkafka_and_ours_share_one_group(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(2000)))
    options = {"bootstrap.servers": queue.broker.bootstrap_servers, "group.id": queue.group, "log_level": 0}
    theirs = ShareConsumer({**options, "share.acknowledgement.mode": "explicit", "max.poll.records": 50})
    theirs.subscribe([queue.topic])
    handled: Counter[int] = Counter()

    def work_as_librdkafka() -> None:
        while handled.total() < 2000:
            for message in theirs.poll(0.1) or []:
                assert message.error() is None
                handled[int(message.value() or b"")] += 1
                theirs.acknowledge(message)
            theirs.commit_sync(PATIENCE_S)
        theirs.close()

    async with queue.consumer(max_poll_records=50, prefetch_records=50) as ours:
        other = asyncio.create_task(asyncio.to_thread(work_as_librdkafka))
        async with asyncio.timeout(PATIENCE_S):
            while handled.total() < 2000:
                for record in await ours.poll(timeout_s=0.1):
                    handled[int(record.value)] += 1
                    await ours.acknowledge(record)
            await ours.flush()
            await other
    assert handled == Counter(range(2000))


class Numbers:
    """A deserializer that refuses what is no number."""

    def decode(self, topic: str, data: bytes | None, headers: object = ()) -> int:
        if data is None or not data.isdigit():
            raise SerializationError(f"{topic}: {data!r} is no number")
        return int(data)


async def test_a_record_that_cannot_be_decoded_does_not_cost_the_others(queue: Queue) -> None:
    queue.configure(**{"errors.deadletterqueue.topic.name": f"{queue.topic}.dead"})
    queue.produce(b"1", b"one", b"2", b"two", b"3")
    found: list[int] = []
    bad: list[bytes] = []
    async with queue.consumer(value=Numbers()) as consumer, asyncio.timeout(PATIENCE_S):
        while len(found) + len(bad) < 5:
            try:
                for record in await consumer.poll():
                    found.append(record.value)
                    await consumer.acknowledge(record)
            except UndecodableRecordError as fault:
                bad.append(fault.record.value)
                await consumer.acknowledge(fault.record, Verdict.REJECT)
        await consumer.flush()
        dead = await asyncio.to_thread(queue.broker.wait_for, f"{queue.topic}.dead", 2)
    assert sorted(found) == [1, 2, 3]
    assert {one.value for one in dead} == set(bad) == {b"one", b"two"}


def test_a_sync_consumer_works_in_threads(queue: Queue) -> None:
    queue.produce(*(b"%d" % number for number in range(100)))
    found: list[int] = []
    with QueueConsumer(queue.broker.bootstrap_servers, queue.topic, group=queue.group) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < 100:
            assert time.monotonic() < deadline
            records = consumer.poll()
            workers = [threading.Thread(target=consumer.acknowledge, args=(record,)) for record in records]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            found += [int(record.value) for record in records]
        consumer.flush()
    assert sorted(found) == list(range(100))
    with pytest.raises(ClosedError, match="is closed"):
        consumer.poll()


async def test_what_is_wrong_is_said_in_a_sentence(queue: Queue) -> None:
    servers = queue.broker.bootstrap_servers
    with pytest.raises(InvalidSettingError, match="group is missing"):
        AsyncQueueConsumer(servers, "jobs")
    with pytest.raises(InvalidSettingError, match="a topic is missing"):
        AsyncQueueConsumer(servers, group="g")
    with pytest.raises(UnknownSettingError, match="did you mean max_poll_records"):
        AsyncQueueConsumer(servers, "jobs", group="g", max_poll_record=3)
    with pytest.raises(ClosedError, match="has not begun"):
        await AsyncQueueConsumer(servers, "jobs", group="g").flush()
    with pytest.raises(QanatError, match="there is no topic"):
        await AsyncQueueConsumer(servers, "no-such-jobs", group="g").start()
    with pytest.raises(QanatError, match="nothing listens there"):
        await AsyncQueueConsumer("127.0.0.1:1", "jobs", group="g", bootstrap_timeout_ms=100).start()


def test_a_fork_is_told(queue: Queue) -> None:
    with QueueConsumer(queue.broker.bootstrap_servers, queue.topic, group=queue.group) as consumer:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                consumer.poll()
                os.write(writing, b"it polled")
            except QanatError as fault:
                os.write(writing, str(fault).encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        said = os.read(reading, 1000).decode()
        os.close(reading)
    assert "make a client after the fork" in said
