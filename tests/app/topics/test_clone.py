"""`qanat topic clone`: partitions, settings and records of one topic in another."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from tests.app.conftest import Run
from tests.app.processes import clean_environment

SECONDS = 30


def records_of(run: Run, topic: str) -> list[dict[str, object]]:
    lines = run("consume", topic, "-e", "--json-envelope").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    for one in found:
        del one["topic"]
    return sorted(found, key=lambda one: (one["partition"], one["offset"]))


def test_a_clone_has_the_partitions_and_the_settings(run: Run) -> None:
    run("topic", "create", "c-plain", "-p", "3", "-c", "retention.ms=86400000", "-c", "segment.bytes=2000000")
    run("produce", "c-plain", given="a\n")
    done = run("topic", "clone", "c-plain", "c-plain-copy", "-c", "segment.bytes=3000000")
    changed = json.loads(run("config", "get", "topic", "c-plain-copy", "--changed", "-o", "json").stdout)

    assert done.stdout == (
        "created c-plain-copy like c-plain: 3 partitions, retention.ms=86400000 segment.bytes=3000000\n"
    )
    assert {row["setting"]: row["value"] for row in changed} == {
        "retention.ms": "86400000",
        "segment.bytes": "3000000",
    }
    assert records_of(run, "c-plain-copy") == []


def test_records_are_copied_as_they_are(run: Run) -> None:
    run("topic", "create", "c-full", "-p", "3")
    keyed = "".join(f"k{number}={number}\n" for number in range(500))
    run("produce", "c-full", "-k", "=", "-H", "source=test", "-z", "zstd", given=keyed)
    run("produce", "c-full", "-k", "=", "-Z", given="k1=\n")
    done = run("topic", "clone", "c-full", "c-full-copy", "--records", "-o", "json")

    assert json.loads(done.stdout)[0]["records"] == 501
    assert records_of(run, "c-full-copy") == records_of(run, "c-full")


def settled(run: Run, topic: str) -> None:
    """Wait until the markers of what was ended are written."""
    deadline = time.monotonic() + SECONDS
    while rows := [
        row
        for row in json.loads(run("transaction", "describe", "--partition", f"{topic}:0", "-o", "json").stdout)
        if row["open_since_offset"] is not None
    ]:
        assert time.monotonic() < deadline, rows


def test_what_was_trimmed_or_aborted_is_not_copied(run: Run, broker_address: str) -> None:
    run("topic", "create", "c-holes", "-p", "1")
    run("produce", "c-holes", given="old\nkept\n")
    run("topic", "trim", "c-holes", "--before", "1", "--yes")
    producer = Producer({"bootstrap.servers": broker_address, "transactional.id": "c-holes", "log_level": 0})
    producer.init_transactions(SECONDS)
    for value, is_commit in (("aborted", False), ("committed", True)):
        producer.begin_transaction()
        producer.produce("c-holes", value.encode(), partition=0)
        producer.flush(SECONDS)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(SECONDS)
        settled(run, "c-holes")
    producer.begin_transaction()
    producer.produce("c-holes", b"open", partition=0)
    producer.flush(SECONDS)
    run("topic", "clone", "c-holes", "c-holes-copy", "--records")
    read = run("consume", "c-holes", "-e", "--committed-only")
    producer.abort_transaction(SECONDS)

    assert [(one["offset"], one["value"]) for one in records_of(run, "c-holes-copy")] == [(0, "kept"), (1, "committed")]
    assert read.stdout == "kept\ncommitted\n", "what is open is not waited for"


def test_a_dry_run_creates_nothing(run: Run) -> None:
    run("topic", "create", "c-dry", "-p", "2")
    run("produce", "c-dry", given="a\n")
    done = run("topic", "clone", "c-dry", "c-dry-copy", "--records", "--dry-run")

    assert done.stdout == "would create c-dry-copy like c-dry: 2 partitions; would copy at most 1 record\n"
    assert "c-dry-copy" not in run("topic", "list", "-o", "names").stdout.split()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["c-thre", "x"], "there is no topic c-thre; did you mean c-there?"),
        (["c-there", "c-there"], "c-there cannot be cloned to itself: give another name"),
        (["c-there", "c-there-too"], "cannot create topic c-there-too: "),
        (["c-there", "no/name"], "cannot create topic no/name: "),
    ],
)
def test_what_cannot_be_cloned_is_one_sentence(run: Run, arguments: list[str], expected: str) -> None:
    run("topic", "create", "c-there", "c-there-too", "--if-not-exists")
    refused = run("topic", "clone", *arguments)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"qanat: {expected}")
    assert refused.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal_only(run: Run, broker_address: str) -> None:
    run("topic", "create", "c-long", "-p", "1")
    run("produce", "c-long", given="x\n" * 2000)
    quiet = run("topic", "clone", "c-long", "c-long-1", "--records")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "qanat.app", "topic", "clone", "c-long", "c-long-2", "--records"]
    environment = clean_environment(QANAT_BOOTSTRAP_SERVERS=broker_address, TERM="xterm", COLUMNS="120")
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment, timeout=SECONDS, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)

    assert quiet.stderr == ""
    assert "c-long to c-long-2" in shown
    assert "2000/2000" in shown
