"""SIGTERM while a handler blocks its thread: the grace ends it, a second signal at once, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.client.app.app_threads import committed, produce
from tests.client.app.test_pitfalls import broker_members

from qanat.testing import EmbeddedBroker

HANDLERS = """
import asyncio, os, sys, time
from qanat.client import App

app = App(os.environ["SERVERS"], grace=os.environ["GRACE"])

@app.stream(os.environ["TOPIC"], group=os.environ["TOPIC"])
{handler}

@app.on_stop
def stopped() -> None:
    time.sleep(float(os.environ.get("HOOK", "0")))

def began() -> None:
    os.write(1, f"began {{os.getpid()}}\\n".encode())

if __name__ == "__main__":
    app.run()
    os.write(1, b"and the program goes on\\n")
    sys.exit(7)
"""
IN_A_THREAD = """
def bill(order: bytes) -> None:
    began()
    time.sleep(600)
"""
TO_THREAD = """
async def bill(order: bytes) -> None:
    began()
    await asyncio.to_thread(time.sleep, 600)
"""
SHORT = """
async def bill(order: bytes) -> None:
    began()
    await asyncio.sleep(1.5)
"""
QUICK_SUPERVISOR = """
import sys
from qanat.app.apps import supervisor
supervisor._MARGIN_S = 1.0
from qanat.app.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        yield found


@contextmanager
def program(
    broker: EmbeddedBroker, folder: Path, arguments: list[str], handler: str, grace: str, **more: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program whose handler has begun, and its topic, which is its group's name as well."""
    topic = f"stops-{time.monotonic_ns()}"
    produce(broker, topic, b"1", partitions=1)
    (folder / "handlers.py").write_text(HANDLERS.format(handler=handler))
    servers = broker.bootstrap_servers
    environment = {**os.environ, "SERVERS": servers, "TOPIC": topic, "GRACE": grace, **more}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("began")
        yield process, topic
    finally:
        process.kill()
        process.communicate()


RUN = ["-m", "qanat.app", "run", "handlers:app"]


@pytest.mark.parametrize("handler", [IN_A_THREAD, TO_THREAD], ids=["handler", "to_thread"])
def test_a_thread_that_blocks_ends_with_the_grace_and_its_record_is_not_committed(
    broker: EmbeddedBroker, tmp_path: Path, handler: str
) -> None:
    with program(broker, tmp_path, RUN, handler, "300ms") as (process, topic):
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert committed(broker, topic, topic, 1) == [0]


def test_a_second_signal_does_not_wait_for_a_thread_that_blocks(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with program(broker, tmp_path, RUN, IN_A_THREAD, "600s") as (process, topic):
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert broker_members(broker, topic) == [], "it has left its group"


@pytest.mark.parametrize("handler", [IN_A_THREAD, TO_THREAD], ids=["handler", "to_thread"])
def test_a_program_goes_on_after_its_app_and_ends_though_a_thread_blocks(
    broker: EmbeddedBroker, tmp_path: Path, handler: str
) -> None:
    with program(broker, tmp_path, ["handlers.py"], handler, "300ms") as (process, _):
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=20)[0]
        assert process.returncode == 7
        assert output == "and the program goes on\n"


def test_a_supervisor_kills_a_worker_that_outlives_its_grace_by_far(broker: EmbeddedBroker, tmp_path: Path) -> None:
    arguments = ["-c", QUICK_SUPERVISOR, "run", "handlers:app", "--workers", "2"]
    with program(broker, tmp_path, arguments, IN_A_THREAD, "300ms", HOOK="600") as (process, _):
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 1
        assert time.monotonic() - begin > 1.3, "the grace of the app, and the margin"


def test_ctrl_c_lets_handlers_of_several_workers_finish(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with program(broker, tmp_path, [*RUN, "--workers", "2"], SHORT, "20s") as (process, topic):
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 0
        assert committed(broker, topic, topic, 1) == [1]
