"""A broker that is killed (SIGKILL) and started again while a producer sends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.judge import read_all
from tools.servers import free_port

from qanat.client import AsyncProducer

pytestmark = [pytest.mark.long, pytest.mark.data]

TOPIC = "orders"
_PROGRAM = """
import sys
from qanat.testing import EmbeddedBroker
with EmbeddedBroker(data_dir=sys.argv[1], settings={"port": int(sys.argv[2]), "num.partitions": 2}) as broker:
    print(broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PROGRAM, str(folder), str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline(), "the broker did not start"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    with process:
        process.wait(30)


async def test_a_killed_broker_loses_and_doubles_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    process = await asyncio.to_thread(start, tmp_path, port)
    try:
        async with AsyncProducer(address, batch_size=4000, request_timeout_ms=2000) as producer:
            receipts = []
            for number in range(15_000):
                receipts.append(await producer.send(TOPIC, b"%d" % number, partition=number % 2))
                if number in (5_000, 10_000):
                    await receipts[number - 1_500]
                    kill(process)
                    process = await asyncio.to_thread(start, tmp_path, port)
            places = [await one for one in receipts]
        found = await asyncio.to_thread(read_all, address, TOPIC, 15_000)
    finally:
        kill(process)
    for partition in (0, 1):
        values = [int(one.value() or b"") for one in found if one.partition() == partition]
        assert values == list(range(partition, 15_000, 2))
        assert [one.offset for one in places[partition::2]] == list(range(7_500))
