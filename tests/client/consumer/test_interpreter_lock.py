"""Code that holds the interpreter's lock (GIL): how long it may, without costing the consumer its place in the group.

The broker is another process: one in this process would stand still as well.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from tests.app.processes import qanat, running_broker

from qanat.client import Consumer, TopicPartition

SESSION_S = 6.0
PROTOCOLS: tuple[Literal["consumer", "classic"], ...] = ("consumer", "classic")
SETTINGS = {
    "QANAT_GROUP_CONSUMER_SESSION_TIMEOUT_MS": str(int(SESSION_S * 1000)),
    "QANAT_GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS": "1000",
    "QANAT_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS": "1000",
    "QANAT_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS": "500",
    "QANAT_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "QANAT_HTTP_PORT": "-1",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(Path(tmp_path_factory.mktemp("broker")), environment=SETTINGS) as broker:
        for protocol in PROTOCOLS:
            done = qanat("topic", "create", protocol, "-p", "2", "-b", broker.address)
            assert done.returncode == 0, done.stderr
        yield broker.address


def hold_the_lock(seconds: float) -> None:
    """As a call of a C extension that does not release it: `PyDLL` calls keep it."""
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1e6)))


class Member:
    """A consumer, and the partitions that it lost."""

    def __init__(self, address: str, protocol: Literal["consumer", "classic"]) -> None:
        self.taken: list[TopicPartition] = []
        self.consumer = Consumer(
            address, protocol, group=f"{protocol}-group", group_protocol=protocol,
            session_timeout_ms=int(SESSION_S * 1000), heartbeat_interval_ms=1000,
            on_revoked=self.taken.extend, on_lost=self.taken.extend,
        )  # fmt: skip

    def join(self) -> None:
        deadline = time.monotonic() + 60
        while len(self.consumer.assignment) < 2:
            assert time.monotonic() < deadline, "it does not join"
            self.consumer.poll(timeout_s=0.1)


def test_a_call_that_holds_it_for_half_the_session_again_and_again_costs_nothing(address: str) -> None:
    members = [Member(address, protocol) for protocol in PROTOCOLS]
    for member in members:
        member.join()
    places = [member.consumer.group_metadata for member in members]
    for _ in range(3):  # Longer than the session, all of them together.
        hold_the_lock(SESSION_S / 2)
        time.sleep(1.0)  # The thread of the network gets its turn, as between two calls of any program.
        for member in members:
            assert member.consumer.poll(timeout_s=0.05) == []
    assert [member.consumer.group_metadata for member in members] == places
    assert [member.taken for member in members] == [[], []]
    for member in members:
        member.consumer.close()


def test_a_call_that_holds_it_for_longer_than_the_session_loses_the_place_and_it_is_told(address: str) -> None:
    members = [Member(address, protocol) for protocol in PROTOCOLS]
    for member in members:
        member.join()
    hold_the_lock(SESSION_S * 1.7)
    deadline = time.monotonic() + 60
    while not all(len(set(member.taken)) == 2 for member in members):
        assert time.monotonic() < deadline, [member.taken for member in members]
        for member in members:
            member.consumer.poll(timeout_s=0.05)
    for member in members:
        member.join()  # It comes back by itself.
        member.taken.clear()
        member.consumer.close()
