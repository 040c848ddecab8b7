"""The pitfalls of other clients, each by name, against a real broker (`docs/client/apps.md` lists them).

Those of queues are in `test_queues.py`, of the producer in `tests/client/producer`; on a virtual clock, with kills and
seeds, in `tests/testing/test_apps.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.client.app.app_threads import Seen, committed, produce, running

from qanat.client import App, Context, Retry, Send
from qanat.testing import EmbeddedBroker


class Order(msgspec.Struct):
    id: int


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        yield found


def orders(n: int, first: int = 0) -> list[bytes]:
    return [b'{"id":%d}' % i for i in range(first, first + n)]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_of_three_times_the_poll_interval_causes_no_rebalance_and_runs_once(
    broker: EmbeddedBroker, is_async: bool
) -> None:
    topic = f"slow-{is_async}"
    app, seen = App(broker.bootstrap_servers, max_poll_interval_ms=1000, session_timeout_ms=1000), Seen()
    if is_async:

        @app.stream(topic, group=topic)
        async def slow(order: Order) -> None:
            await asyncio.sleep(3)
            seen.add(order.id)

    else:

        @app.stream(topic, group=topic)
        def slow_in_a_thread(order: Order) -> None:
            time.sleep(3)
            seen.add(order.id)

    produce(broker, topic, *orders(2), partitions=1)
    with running(app):
        seen.wait_for(1)
        members = broker_members(broker, topic)
        seen.wait_for(2)
        assert broker_members(broker, topic) == members
    assert seen == [0, 1]
    assert committed(broker, topic, topic, 1) == [2]


def broker_members(broker: EmbeddedBroker, group: str) -> list[str]:
    from confluent_kafka.admin import AdminClient

    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return sorted(one.member_id for one in admin.describe_consumer_groups([group])[group].result(60).members)


def test_foreign_metadata_of_committed_offsets_is_ignored_with_one_warning(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, "foreign", *orders(5), partitions=2, partition=0)
    produce(broker, "foreign", *orders(5, 10), partitions=2, partition=1)
    other: Any = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "foreign"})
    metadata = "bitset:AAAA" * 100
    offsets = [TopicPartition("foreign", partition, 2, metadata) for partition in range(2)]
    other.commit(offsets=offsets, asynchronous=False)
    other.close()
    app, seen = App(broker.bootstrap_servers), Seen()

    @app.stream("foreign", group="foreign")
    async def bill(order: Order) -> None:
        seen.add(order.id)

    with running(app):
        seen.wait_for(6)
    assert sorted(seen) == [2, 3, 4, 12, 13, 14]
    told = [one.getMessage() for one in caplog.records if "metadata of another client" in one.getMessage()]
    assert len(told) == 1, told


def test_a_committed_offset_that_is_deleted_is_told_once_and_the_policy_is_followed(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, "deleted", *orders(10), partitions=1)
    other: Any = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "deleted"})
    other.commit(offsets=[TopicPartition("deleted", 0, 2)], asynchronous=False)
    other.close()
    from confluent_kafka.admin import AdminClient

    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for outcome in admin.delete_records([TopicPartition("deleted", 0, 6)]).values():
        outcome.result(60)
    app, seen = App(broker.bootstrap_servers, auto_offset_reset="earliest"), Seen()

    @app.stream("deleted", group="deleted")
    async def bill(order: Order) -> None:
        seen.add(order.id)

    with running(app):
        seen.wait_for(4)
    assert seen == [6, 7, 8, 9]
    told = [one.getMessage() for one in caplog.records if "deleted-0" in one.getMessage()]
    assert len(told) == 1, told


def test_progress_comes_back_after_a_restart_of_the_broker_and_dropped_answers(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        app, seen = App(broker.bootstrap_servers), Seen()

        @app.stream("orders", group="g", concurrency=4)
        async def enrich(order: Order) -> Send:
            seen.add(order.id)
            return Send("enriched", order)

        broker.create_topic("enriched")
        produce(broker, "orders", *orders(10))
        with running(app):
            seen.wait_for(10)
            broker.restart()
            produce(broker, "orders", *orders(10, 10))
            seen.wait_for(20, 60)
            broker.lose_answer("Fetch", times=2)
            broker.lose_answer("OffsetCommit", times=2)
            broker.drop("Produce", times=2)
            produce(broker, "orders", *orders(10, 20))
            seen.wait_for(30, 60)
            assert app.health()
        assert set(seen) == set(range(30))
        assert committed(broker, "g", "orders") == [
            sum(1 for one in broker.records("orders") if one.partition == p) for p in (0, 1)
        ]


def test_exactly_once_writes_each_result_once_across_a_restart_of_the_app(broker: EmbeddedBroker) -> None:
    broker.create_topic("enriched-once")
    produce(broker, "once", *orders(200))

    def app_of(seen: Seen) -> App:
        app = App(broker.bootstrap_servers, grace="5s")

        @app.stream("once", group="once", exactly_once=True, concurrency=8, retry=Retry(backoff="10ms..20ms"))
        async def enrich(order: Order, ctx: Context) -> Send:
            await asyncio.sleep(0.001)
            if order.id % 50 == 7 and ctx.attempt == 1:
                raise OSError("away")
            seen.add(order.id)
            return Send("enriched-once", order.id, key=str(order.id))

        return app

    first, second = Seen(), Seen()
    with running(app_of(first)):
        first.wait_for(60)
    with running(app_of(second)):
        deadline = time.monotonic() + 60
        while sum(committed(broker, "once", "once")) < 200:
            assert time.monotonic() < deadline
            second.wait_for(0)
    consumer: Any = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["enriched-once"])
    found: list[int] = []
    while len(found) < 200:
        messages = consumer.consume(200 - len(found), 10)
        assert messages, f"only {len(found)}"
        found += [int(one.value()) for one in messages]
    assert consumer.consume(1, 0.5) == []
    consumer.close()
    assert sorted(found) == list(range(200))


WORKER = """
import asyncio, os, sys
import msgspec
from qanat.client import App, Context

app = App(sys.argv[1], group_protocol="classic", session_timeout_ms=1000, heartbeat_interval_ms=200)

class Order(msgspec.Struct):
    id: int

@app.stream("killed", group="killed", concurrency=8)
async def bill(order: Order, ctx: Context) -> None:
    await asyncio.sleep(0.002)
    os.write(1, b"%d %d %d\\n" % (ctx.record.partition, ctx.record.offset, order.id))

app.run()
"""


def test_kill_9_anywhere_never_leaves_an_offset_past_an_unfinished_record(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    produce(broker, "killed", *orders(2000))
    done: dict[int, set[int]] = {0: set(), 1: set()}
    for pause_records in (5, 150, 400, 10_000):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, broker.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            partition, offset, _ = map(int, line.split())
            done[partition].add(offset)
            if count >= pause_records or sum(map(len, done.values())) == 2000:
                break
        process.kill()
        for line in process.stdout:
            if line.endswith(b"\n"):
                partition, offset, _ = map(int, line.split())
                done[partition].add(offset)
        process.stdout.close()
        process.wait()
        for partition, offset in enumerate(committed(broker, "killed", "killed")):
            assert set(range(offset)) <= done[partition], "committed past an unfinished record"
    assert sum(map(len, done.values())) == 2000, "a record is lost"


def test_sigterm_finishes_what_runs_commits_and_leaves_with_code_0(broker: EmbeddedBroker) -> None:
    produce(broker, "killed", b'{"id":1}')
    text = WORKER.replace('"killed"', '"term"').replace("0.002", "1.5")
    produce(broker, "term", *orders(4), partitions=1)
    process = subprocess.Popen([sys.executable, "-c", text, broker.bootstrap_servers], stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first
    process.send_signal(signal.SIGTERM)
    output = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    handled = len((first + output).splitlines())
    assert committed(broker, "term", "term", 1) == [handled]
    assert broker_members(broker, "term") == []


def test_a_forked_child_gets_a_clear_error_or_a_fresh_client(broker: EmbeddedBroker) -> None:
    from qanat.client import ForkedError, Producer

    broker.create_topic("forked")
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("forked", b"parent").result(60)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                producer.send("forked", b"child")
            except ForkedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_unreachable_broker_is_one_sentence_within_a_bounded_time() -> None:
    app = App("127.0.0.1:1", bootstrap_timeout_ms=500)

    @app.stream("orders")
    async def bill(order: Order) -> None: ...

    begin = time.monotonic()
    with pytest.raises(Exception, match=r"127.0.0.1:1"):
        asyncio.run(app.serve())
    assert time.monotonic() - begin < 60


def test_an_unknown_topic_is_named(broker: EmbeddedBroker) -> None:
    app = App(broker.bootstrap_servers, request_timeout_ms=2000)

    @app.stream("no-such-topic")
    async def bill(order: Order) -> None: ...

    with pytest.raises(Exception, match="no-such-topic"):
        asyncio.run(app.serve())
