"""`qanat bench` on a broker: few records, real clients, every kind of run, and what goes wrong."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.app.conftest import Run
from tests.app.processes import QANAT, TIMEOUT_SECONDS, clean_environment

from qanat.app.bench.clients import librdkafka_properties
from qanat.app.main import EXIT_FAILED, EXIT_INTERRUPTED

SHARES = {"p50", "p95", "p99", "p99.9", "max", "mean"}


def topics(run: Run) -> list[str]:
    return [line for line in run("topic", "list", "-o", "names").stdout.split() if line.startswith("qanat-bench-")]


def test_producing_reports_rates_latencies_and_errors_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "produce.html"
    done = run(
        *("bench", "produce", "--records", "2000", "--size", "200", "--clients", "2", "--partitions", "3"),
        *("--acks", "all", "--compression", "lz4", "--warmup", "100", "-X", "queue.buffering.max.messages=1000"),
        *("--json", "--html", str(page)),
    )
    found = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert (found["records"], found["bytes"], found["errors"]) == (2000, 400_000, 0)
    assert found["latency_ms"].keys() == SHARES
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["max"]
    assert found["records_per_s"] == pytest.approx(2000 / found["seconds"], rel=0.01)
    assert found["settings"]["queue.buffering.max.messages"] == "1000"
    assert found["broker"]["cpu_s"] > 0
    text = page.read_text()
    assert text.count("<svg") == 2
    assert re.findall(r"""(?:src|href)=["']?[^"'>]+""", text) == []
    assert topics(run) == []


def test_what_was_written_is_read_and_too_little_is_said_before(run: Run) -> None:
    run("topic", "create", "bench-there", "-p", "2")
    written = run("bench", "produce", "--topic", "bench-there", "--num-records", "500", "--record-size", "10")
    read = run("bench", "consume", "--topic", "bench-there", "--clients", "2", "-o", "json")
    fewer = run("bench", "consume", "--topic", "bench-there", "--records", "120", "--json")
    more = run("bench", "consume", "--topic", "bench-there", "--records", "501")
    found = json.loads(read.stdout)

    assert (written.returncode, read.returncode, fewer.returncode) == (0, 0, 0)
    assert "records/s" in written.stdout
    assert (found["records"], found["bytes"]) == (500, 5000)
    assert found["first_record_ms"] > 0
    assert json.loads(fewer.stdout)["records"] == 120
    assert (more.returncode, more.stdout) == (EXIT_FAILED, "")
    assert "holds 500 records, --records 501 asks for more" in more.stderr


def test_a_temporary_topic_is_filled_and_read_by_a_group(run: Run) -> None:
    done = run("bench", "consume", "--records", "300", "--group", "bench-readers", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] >= 300
    assert topics(run) == []


def test_end_to_end_follows_every_record_at_its_rate(run: Run) -> None:
    line = ("bench", "end-to-end", "--records", "200", "--rate", "400", "--warmup", "20", "--transactional", "--json")
    done = run(*line, "--transaction-ms", "50")
    found = json.loads(done.stdout)

    assert (done.returncode, found["records"], found["received"]) == (0, 200, 200)
    assert found["seconds"] >= 0.49, "199 intervals of 2.5 ms"
    assert found["latency_ms"].keys() == found["acknowledged_ms"].keys() == SHARES
    assert found["latency_ms"]["max"] >= found["acknowledged_ms"]["p50"]


def test_members_come_and_go(run: Run) -> None:
    line = ("bench", "rebalance", "--members", "2", "--rounds", "1", "-X", "heartbeat.interval.ms=100", "--json")
    done = run(*line)
    changes = json.loads(done.stdout)["changes"]

    assert done.returncode == 0
    assert [one["change"] for one in changes] == ["2 join at once", "one more joins", "one leaves", "1 leave"]
    assert all(one["median_s"] > 0 for one in changes)
    assert "qanat-bench-" not in run("group", "list", "-o", "names").stdout


def test_partitions_grow_and_connections_come(run: Run) -> None:
    grown = run("bench", "partitions", "--counts", "20", "--seconds", "0.2", "--json")
    connected = run("bench", "connections", "--connections", "20", "--rate", "200", "--seconds", "0.2", "--json")
    rows = json.loads(grown.stdout)["counts"]
    parts = {part["part"]: part for part in json.loads(connected.stdout)["parts"]}

    assert (grown.returncode, connected.returncode) == (0, 0)
    assert [row["partitions"] for row in rows] == [20]
    for row in rows:
        assert row["produce"]["records"] == row["consume"]["records"] > 0
        assert min(row["create_ms"], row["metadata_ms"], row["delete_ms"]) > 0
    assert list(parts) == ["alone", "connect", "idle", "active"]
    assert (parts["connect"]["count"], parts["active"]["count"]) == (20, 40)
    assert topics(run) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("produce --records 1 --seconds 1", "give --records or --seconds, not both"),
        ("produce --topic t --partitions 2", "--partitions is for a temporary topic: t exists already"),
        ("produce --transactional --acks 1", "--transactional needs --acks all, not 1"),
        ("produce --transaction-ms 5", "--transaction-ms has no effect without --transactional"),
        ("produce --records 0", "--records 0: write a number from 1"),
        ("produce --warmup soon", "--warmup soon: write a number of records, or seconds as in 5s"),
        ("produce --html /nonexistent/x.html", "cannot write /nonexistent/x.html"),
        ("produce -X no.such.property=1", 'No such configuration property: "no.such.property"'),
        ("produce -X enable.idempotence=true --acks 1", "`acks` must be set to `all`"),
        ("produce --topic bench-nowhere", "there is no topic bench-nowhere"),
        ("produce --replication-factor 3", "cannot create a temporary topic"),
        ("consume --topic t --size 5", "--size is for a temporary topic"),
        ("consume --clients 3 --partitions 2", "one client reads a partition"),
        ("end-to-end --rate 0", "end-to-end needs a --rate"),
        ("end-to-end --size 4", "--size 4: write a number from 16"),
        ("partitions --counts 1,x", "--counts 1,x: write numbers of partitions"),
        ("connections --connections 5 --active 6", "--active 6: write a number from 1 to 5"),
    ],
)
def test_mistakes_are_reported_before_anything_is_created(run: Run, line: str, expected: str) -> None:
    done = run("bench", *line.split())

    assert (done.returncode, done.stdout) == (EXIT_FAILED, "")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    assert topics(run) == []


@pytest.mark.parametrize(
    "command", ["produce", "consume", "end-to-end", "rebalance", "partitions", "connections", "produce --topic t"]
)
def test_no_broker_is_said_at_once_and_alone(run: Run, command: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = run("bench", *command.split(), "-b", f"127.0.0.1:{unused.getsockname()[1]}")

    assert (done.returncode, done.stdout) == (EXIT_FAILED, "")
    assert done.stderr.startswith("qanat: no broker can be reached")
    assert done.stderr.count("\n") == 1


def test_records_that_are_refused_are_counted_by_reason(run: Run) -> None:
    run("topic", "create", "bench-small", "-c", "max.message.bytes=1000")
    done = run("bench", "produce", "--topic", "bench-small", "--records", "3", "--size", "5000", "--json")
    found = json.loads(done.stdout)

    assert (done.returncode, found["records"], found["errors"]) == (EXIT_FAILED, 0, 3)
    assert any("too large" in reason for reason in found["error_reasons"])
    assert "3 records were refused or lost" in done.stderr


def test_missing_libraries_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka_properties, "find_spec", lambda name: None)
    done = run("bench", "produce")

    assert done.returncode == EXIT_FAILED
    assert "pip install 'qanat[bench]'" in done.stderr


def test_an_interrupt_ends_with_the_results_so_far(broker_address: str, run: Run) -> None:
    process = subprocess.Popen(
        [*QANAT, "bench", "produce", "-b", broker_address, "--seconds", "600", "--rate", "1000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not any(_records(run, topic) for topic in topics(run)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    found = json.loads(printed)

    assert process.returncode == EXIT_INTERRUPTED
    assert found["interrupted"] is True
    assert 0 < found["records"] < 600_000
    assert b"interrupted: these are the results so far" in complaint
    assert topics(run) == []


def _records(run: Run, topic: str) -> int:
    rows = json.loads(run("topic", "describe", topic, "-o", "json").stdout or "[]")
    return sum(row["records"] for row in rows)
