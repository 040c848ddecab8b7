"""Every file of examples/ runs against a real broker, and so does the code of the implementation guide."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.processes import RunningBroker, clean_environment, qanat, running_broker
from tests.app.test_operating_pipelines_page import http_port
from tests.documents.blocks import ROOT, blocks_of

EXAMPLES = ROOT / "examples"
TIMEOUT_S = 120


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path, command="dev", environment={"QANAT_HTTP_PORT": "0"}) as running:
        yield running


def environment() -> dict[str, str]:
    return clean_environment(
        PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    )


def printed_by(*command: str | Path) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout


def test_java_s_producer_and_consumer(broker: RunningBroker) -> None:
    assert printed_by(sys.executable, EXAMPLES / "message_producer.py", broker.address) == "sent\n"
    assert printed_by(sys.executable, EXAMPLES / "message_consumer.py", broker.address) == "Received: Hello World!\n"


def test_five_prices_move_the_group_from_zero_to_five(broker: RunningBroker) -> None:
    printed = printed_by(sys.executable, EXAMPLES / "price_feed.py", broker.address)

    assert re.findall(r"AAPL|GOOGL|MSFT|TSLA|AMZN", printed) == ["AAPL", "GOOGL", "MSFT", "TSLA", "AMZN"]
    assert printed.endswith("the next offset is 5\n")
    described = qanat("group", "describe", "price-group", "-b", broker.address, "-o", "json").stdout
    assert re.search(r'"(?:committed|offset|current)\w*": 5\b', described), described


def test_metrics_are_stored_in_the_order_of_each_device(broker: RunningBroker) -> None:
    printed = printed_by(sys.executable, EXAMPLES / "metrics_pipeline.py", broker.address)

    assert printed == "stored 20 measurements of 4 devices, each device's in order\n"


def test_the_three_operations_of_the_seeds_over_http(broker: RunningBroker, tmp_path: Path) -> None:
    node = f"http://127.0.0.1:{http_port(tmp_path)}"
    printed = printed_by(sys.executable, EXAMPLES / "http_contract.py", node)

    assert re.match(r"written to partition \d at offset 0\nread {'cpu': 0.5}, next offset 1\nassigned", printed)


def test_the_quick_start_of_the_seeds(broker: RunningBroker, tmp_path: Path) -> None:
    node = f"http://127.0.0.1:{http_port(tmp_path)}"
    printed = printed_by("env", "REPLICATION_FACTOR=1", "sh", EXAMPLES / "http_quick_start.sh", node)

    assert '"offset":0' in printed.replace(" ", "")
    assert qanat("topic", "list", "-b", broker.address, "-o", "names").stdout.splitlines() == ["test-topic"]


ORDERS = '{"id": "a", "amount": 5}\n{"id": "flaky", "amount": 6}\n{"id": "wrong", "amount": -1}\n'


def test_handlers_try_again_and_give_up_what_they_cannot_handle(broker: RunningBroker) -> None:
    assert qanat("topic", "create", "orders", "-p", "1", "-b", broker.address).returncode == 0
    assert qanat("produce", "orders", "-b", broker.address, given=ORDERS).returncode == 0
    command = [sys.executable, str(EXAMPLES / "order_handlers.py"), broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        try:
            printed = {process.stdout.readline().strip() for _ in range(2)}
            letters = _dead_letters(broker)
        finally:
            process.terminate()

    assert printed == {"billed a at attempt 1", "billed flaky at attempt 2"}
    assert '"wrong"' in letters


def _dead_letters(broker: RunningBroker) -> str:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = qanat("consume", "orders.dlq", "-e", "-b", broker.address)
        if found.stdout:
            return found.stdout
    raise AssertionError("no dead letter came")


def test_a_broker_starts_with_the_configuration_of_the_seeds(tmp_path: Path) -> None:
    seeds = {"NODE_ID": "broker-001", "BROKER_PORT": "0", "DATA_DIR": str(tmp_path / "data")}
    with running_broker(tmp_path, "--config", str(EXAMPLES / "application.yml"), environment=seeds) as running:
        assert running.stop() == 0


def test_every_example_is_listed_and_run_here() -> None:
    files = {file.name for file in EXAMPLES.iterdir() if file.is_file() and file.name != "README.md"}
    listed = set(re.findall(r"`(\w+\.\w+)`", (EXAMPLES / "README.md").read_text()))

    assert listed == files
    assert [name for name in files if f'"{name}"' not in Path(__file__).read_text()] == []


def test_the_code_of_the_implementation_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [one for one in blocks_of(ROOT / "docs" / "internals" / "implementation-guide.md") if one.is_python]
    exec(compile(block.text, block.page, "exec"), {"__name__": "__main__"})

    assert capsys.readouterr().out == "0\nb'first'\n"
