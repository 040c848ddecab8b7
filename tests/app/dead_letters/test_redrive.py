"""`qanat dlq`: letters listed, shown and redriven, each exactly once, also under kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from confluent_kafka import Message
from tests.app.conftest import Run
from tests.app.dead_letters.letters import SECONDS, committed_records, origins, write_letters

from qanat.model.dead_letters import Origin


def place(message: Message) -> str:
    return (message.value() or b"").decode()


def made(run: Run, *names: str, partitions: int = 2) -> None:
    for name in names:
        assert run("topic", "create", name, "-p", str(partitions)).returncode == 0


def redrive_process(bootstrap: str, topic: str, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "qanat.app", "dlq", "redrive", topic, "--yes", *flags]
    return subprocess.Popen(
        command,
        env={**os.environ, "QANAT_BOOTSTRAP_SERVERS": bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_records(bootstrap: str, topic: str, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(committed_records(bootstrap, topic)) < count:
        assert time.monotonic() < deadline, f"{topic} has fewer than {count} records"


def test_letters_are_listed_by_filter_and_shown_whole(run: Run, broker_address: str) -> None:
    made(run, "dl-orders", "dl-orders.dead")
    write_letters(broker_address, "dl-orders.dead", origins("dl-orders", 2, "a timeout of the bank"))
    write_letters(broker_address, "dl-orders.dead", [Origin("other", 0, 9, "rejected")], partition=1)
    run("produce", "dl-orders.dead", given="no letter\n")

    every = json.loads(run("dlq", "list", "dl-orders.dead", "-o", "json").stdout)
    by_error = json.loads(run("dlq", "list", "dl-orders.dead", "--error", "TIMEOUT", "-o", "json").stdout)
    by_where = json.loads(run("dlq", "list", "dl-orders.dead", "-w", "offset == 1", "-o", "json").stdout)
    by_origin = json.loads(run("dlq", "list", "dl-orders.dead", "--origin", "other", "-o", "json").stdout)
    shown = json.loads(run("dlq", "show", "dl-orders.dead", "0:1", "-o", "json").stdout)
    text = run("dlq", "show", "dl-orders.dead", "0:1").stdout
    missing = run("dlq", "show", "dl-orders.dead", "0:7")

    assert sorted((row["topic"], row["topic_offset"]) for row in every) == [
        ("dl-orders", 0),
        ("dl-orders", 1),
        ("other", 9),
    ]
    assert {row["error"] for row in by_error} == {"a timeout of the bank"}
    assert [(row["topic"], row["topic_offset"], row["group"], row["deliveries"]) for row in by_where] == [
        ("dl-orders", 1, "workers", 5)
    ]
    assert [row["topic"] for row in by_origin] == ["other"]
    assert (shown["topic"], shown["partition"], shown["offset"]) == ("dl-orders", 1, 1)
    assert (shown["timestamp"], shown["headers"]) == (1_700_000_000_001, [["trace", "1"]])
    assert "from       dl-orders-1 at offset 1\nerror      a timeout of the bank\n" in text
    assert "there is no dead letter at 0:7 in dl-orders.dead" in missing.stderr


def test_a_redrive_restores_each_record_in_its_partition(run: Run, broker_address: str) -> None:
    made(run, "rd-orders", "rd-orders.dead")
    write_letters(broker_address, "rd-orders.dead", origins("rd-orders", 10))
    would = run("dlq", "redrive", "rd-orders.dead", "--dry-run")
    withheld = run("dlq", "redrive", "rd-orders.dead")
    assert committed_records(broker_address, "rd-orders") == []

    done = run("dlq", "redrive", "rd-orders.dead", "--yes")
    again = run("dlq", "redrive", "rd-orders.dead", "--yes")

    assert would.stdout == "would redrive 10 letters of rd-orders.dead to rd-orders=10\n"
    assert (withheld.returncode, "nothing was redriven: add --yes" in withheld.stderr) == (1, True)
    assert done.stdout == "redrove 10 letters of rd-orders.dead to rd-orders=10\n", done.stderr
    assert again.stdout == "redrove 0 letters of rd-orders.dead; 10 redriven before\n"
    found = committed_records(broker_address, "rd-orders")
    assert sorted(place(one) for one in found) == sorted(f"rd-orders-{number % 2}-{number}" for number in range(10))
    for one in found:
        number = int(place(one).rpartition("-")[2])
        assert one.partition() == number % 2
        assert one.timestamp()[1] == 1_700_000_000_000 + number
        assert one.headers() == [("trace", b"1")]
    listed = json.loads(run("dlq", "list", "rd-orders.dead", "-o", "json").stdout)
    assert [row["redriven"] for row in listed] == [True] * 10
    assert run("dlq", "list", "rd-orders.dead", "--pending", "-o", "names").stdout == ""


def test_overlapping_filters_redrive_no_letter_twice(run: Run, broker_address: str) -> None:
    made(run, "of-orders", "of-orders.dead", partitions=1)
    for number in range(0, 12, 3):
        some = [Origin("of-orders", 0, number + one, f"error {one}", timestamp_ms=5) for one in range(3)]
        write_letters(broker_address, "of-orders.dead", some)

    def redriven(*flags: str) -> int:
        done = run("dlq", "redrive", "of-orders.dead", "--yes", "-o", "json", *flags)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)[0]["redriven"])

    assert redriven("--error", "error 1") == 4
    assert redriven("-w", "offset >= 3", "-n", "2") == 2
    assert redriven("-w", "offset >= 3") == 4
    assert redriven("--from", "0:2") == 1
    assert redriven() == 1
    assert redriven() == 0
    found = Counter(place(one) for one in committed_records(broker_address, "of-orders"))
    assert found == Counter(f"of-orders-0-{number}" for number in range(12))


def test_a_letter_whose_topic_or_partition_is_gone_is_not_lost(run: Run, broker_address: str) -> None:
    made(run, "sm-orders", "sm-orders.dead", partitions=1)
    write_letters(broker_address, "sm-orders.dead", [Origin("sm-orders", 3, 8), Origin("sm-gone", 0, 1)])
    write_letters(broker_address, "sm-orders.dead", [Origin("__consumer_offsets", 0, 1)])

    done = run("dlq", "redrive", "sm-orders.dead", "--yes")
    made(run, "sm-gone", partitions=1)
    later = run("dlq", "redrive", "sm-orders.dead", "--yes")

    assert done.stdout == "redrove 1 letter of sm-orders.dead to sm-orders=1; 2 whose topic is gone\n", done.stderr
    assert later.stdout.startswith("redrove 1 letter of sm-orders.dead to sm-gone=1; ")
    assert [place(one) for one in committed_records(broker_address, "sm-orders")] == ["sm-orders-3-8"]


def test_a_redrive_that_is_killed_or_interrupted_writes_each_record_exactly_once(run: Run, broker_address: str) -> None:
    made(run, "k9-orders", "k9-orders.dead")
    write_letters(broker_address, "k9-orders.dead", origins("k9-orders", 3000))
    for wanted, end in ((500, signal.SIGKILL), (1500, signal.SIGINT)):
        process = redrive_process(broker_address, "k9-orders.dead", "--rate", "500")
        try:
            wait_for_records(broker_address, "k9-orders", wanted)
            assert process.poll() is None
        finally:
            process.send_signal(end)
            process.communicate(timeout=SECONDS)
    done = run("dlq", "redrive", "k9-orders.dead", "--yes", "-o", "json")

    assert 0 < json.loads(done.stdout)[0]["redriven"] <= 1500, done.stderr
    found = Counter(place(one) for one in committed_records(broker_address, "k9-orders"))
    assert found == Counter(f"k9-orders-{number % 2}-{number}" for number in range(3000))


def test_a_second_redrive_ends_the_first_with_a_sentence(run: Run, broker_address: str) -> None:
    made(run, "tw-orders", "tw-orders.dead")
    write_letters(broker_address, "tw-orders.dead", origins("tw-orders", 300))
    first = redrive_process(broker_address, "tw-orders.dead", "--rate", "50")
    try:
        wait_for_records(broker_address, "tw-orders", 50)
        second = run("dlq", "redrive", "tw-orders.dead", "--yes")
        _, said = first.communicate(timeout=SECONDS)
    finally:
        first.kill()
        first.wait()

    assert second.returncode == 0, second.stderr
    assert first.returncode == 1
    assert "another redrive of tw-orders.dead has begun, so that this one ends" in said
    found = Counter(place(one) for one in committed_records(broker_address, "tw-orders"))
    assert found == Counter(f"tw-orders-{number % 2}-{number}" for number in range(300))
