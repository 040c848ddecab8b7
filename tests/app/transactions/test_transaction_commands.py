"""`qanat transaction`: open transactions are listed, hanging ones ended."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaException, Producer
from tests.app.conftest import Run


def opened(run: Run, address: str, transactional_id: str, topic: str) -> Producer:
    assert run("topic", "create", topic, "-p", "1").returncode == 0
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0
    return producer


def listed(run: Run, *arguments: str) -> list[dict[str, object]]:
    result = run("transaction", *arguments, "-o", "json")
    assert result.returncode == 0, result.stderr
    rows: list[dict[str, object]] = json.loads(result.stdout)
    return rows


def test_an_open_transaction_is_listed_described_and_aborted(run: Run, broker_address: str) -> None:
    producer = opened(run, broker_address, "copier", "copied")
    assert [row["transaction"] for row in listed(run, "list", "--state", "Ongoing")] == ["copier"]
    assert listed(run, "list", "--longer-than", "3600") == []
    (row,) = listed(run, "describe", "copier")
    assert (row["state"], row["partitions"]) == ("Ongoing", "copied:0")
    (row,) = listed(run, "describe", "--partition", "copied:0")
    assert row["open_since_offset"] == 0

    held = run("transaction", "abort", "copier")
    assert (held.returncode, "would abort copier" in held.stdout) == (1, True)
    done = run("transaction", "abort", "copier", "--yes")
    assert (done.returncode, done.stdout) == (0, "aborted copier\n"), done.stderr
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    (row,) = listed(run, "describe", "--partition", "copied:0")
    assert row["open_since_offset"] is None
    again = run("transaction", "abort", "copier", "--yes")
    assert (again.returncode, "has no open transaction" in again.stderr) == (1, True)


def test_a_transaction_in_a_partition_is_ended_there(run: Run, broker_address: str) -> None:
    producer = opened(run, broker_address, "hanging", "hung")
    (row,) = listed(run, "describe", "-p", "hung:0")
    wrong = run("transaction", "abort", "-p", "hung:0", "--start-offset", "7", "--yes")
    assert (wrong.returncode, "no open transaction begins at offset 7" in wrong.stderr) == (1, True)
    done = run("transaction", "abort", "-p", "hung:0", "--start-offset", "0", "--yes")
    assert done.returncode == 0, done.stderr
    (row,) = listed(run, "describe", "-p", "hung:0")
    assert row["open_since_offset"] is None
    del producer


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["describe"], "name transactional ids"),
        (["describe", "-p", "orders"], "topic:partition"),
        (["abort"], "name a transactional id"),
        (["abort", "-p", "orders:0"], "--start-offset"),
        (["list", "--state", "Odd"], "there is no state Odd"),
        (["describe", "nobody"], "nobody"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(run: Run, arguments: list[str], reason: str) -> None:
    result = run("transaction", *arguments)
    assert (result.returncode, reason in result.stderr, "Traceback" in result.stderr) == (1, True, False), result.stderr
