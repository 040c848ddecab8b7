"""The embedded broker is a real one: quick to start, gone when it ends, and the same on a loop or in a thread."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.testing.clients import consume, produce

from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def test_a_client_produces_and_the_test_reads_what_is_stored() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", partitions=2)
        produce(broker, "orders", b"one", b"two", partition=1)

        found = broker.records("orders")

    assert [(one.partition, one.offset, one.value) for one in found] == [(1, 0, b"one"), (1, 1, b"two")]


def test_topics_are_listed_without_internal_ones() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("b")
        broker.create_topic("a", configs={"cleanup.policy": "compact"})
        assert consume(broker, "a", 0, group="g") == []

        assert broker.topics() == ["a", "b"]


def test_waiting_for_records_begins_before_the_topic_exists() -> None:
    with EmbeddedBroker() as broker:
        writer = threading.Timer(0.05, produce, (broker, "late", b"here"))
        writer.start()
        found = broker.wait_for("late", 1)
        writer.join()

    assert [one.value for one in found] == [b"here"]


def test_waiting_for_records_gives_up_with_what_there_is() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("few")
        produce(broker, "few", b"one")

        with pytest.raises(TimeoutError, match=r"'few' holds 1 records after 0\.1 s, not 2"):
            broker.wait_for("few", 2, timeout=0.1)


def test_records_of_an_unknown_topic_are_an_error_that_names_those_there_are() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")

        with pytest.raises(LookupError, match="there is no topic 'order'; topics are \\['orders'\\]"):
            broker.records("order")


def test_a_topic_that_cannot_be_is_refused_with_the_reason() -> None:
    with EmbeddedBroker() as broker, pytest.raises(ValueError, match="topic 'a b' cannot be created"):
        broker.create_topic("a b")


def test_settings_have_the_names_of_kafka() -> None:
    with EmbeddedBroker(settings={"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        produce(broker, "made", b"x")
        numbers = {at.partition for at in broker.node.broker.partitions if at.topic == "made"}

    assert numbers == {0, 1, 2}


def test_an_unknown_setting_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(InvalidSettingError, match=r"did you mean num\.partitions"):
        EmbeddedBroker(settings={"num.partition": 3})


def test_a_broker_that_cannot_start_says_why_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Exception, match="cannot listen on"), EmbeddedBroker(settings={"port": port}):
            pass

    assert set(threading.enumerate()) <= before


LEFTOVERS = """
import os, socket, threading
from qanat.testing import EmbeddedBroker

def left():
    return threading.active_count(), len(os.listdir("/proc/self/fd"))

def use():
    with EmbeddedBroker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        idle = socket.create_connection((host, int(port)))
        broker.create_topic("t")
    idle.close()
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return
    raise AssertionError("somebody still listens")

use()
before = left()
for _ in range(3):
    use()
assert left() == before, (before, left())
"""


def test_nothing_is_left_when_a_broker_ends() -> None:
    """In a process of its own: here, others' clients and brokers come and go."""
    command = [sys.executable, "-W", "error", "-c", LEFTOVERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_data_directory_is_kept(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept")
        produce(broker, "kept", b"x")
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert [one.value for one in broker.records("kept")] == [b"x"]


@pytest.mark.parametrize("is_memory", [True, False], ids=["memory", "files"])
def test_a_restart_keeps_port_and_records(tmp_path: Path, *, is_memory: bool) -> None:
    with EmbeddedBroker(data_dir=None if is_memory else tmp_path) as broker:
        broker.create_topic("kept")
        produce(broker, "kept", b"before")
        address = broker.bootstrap_servers

        broker.restart(down_seconds=0.05)

        produce(broker, "kept", b"after")
        assert broker.bootstrap_servers == address
        assert [one.value for one in broker.records("kept")] == [b"before", b"after"]


async def test_a_broker_on_the_callers_loop_leaves_no_task() -> None:
    async with EmbeddedBroker.here() as broker:
        await broker.create_topic("here")
        await asyncio.to_thread(produce, broker, "here", b"x")
        (record,) = await broker.wait_for("here", 1)

    assert record.value == b"x"
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_second_broker_of_a_process_starts_in_no_time() -> None:
    program = (
        "import time\n"
        "from qanat.testing import EmbeddedBroker\n"
        "with EmbeddedBroker(): pass\n"
        "began = time.thread_time() + time.process_time()\n"
        "for _ in range(10):\n"
        "    with EmbeddedBroker(): pass\n"
        "print((time.process_time() + time.thread_time() - began) / 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert float(done.stdout) < 0.1, "seconds of CPU for starting and stopping"
