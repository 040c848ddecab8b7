"""`qanat group`, as processes against a real broker."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer
from tests.app.conftest import Run


def committed(run: Run, group: str, topic: str) -> list[int]:
    rows = json.loads(run("group", "describe", group, "-o", "json").stdout)
    return [row["committed"] for row in rows if row["scope"] == "partition" and row["topic"] == topic]


def test_lag_is_shown_by_partition_by_topic_and_in_total(run: Run) -> None:
    for topic in ("g-a", "g-b"):
        run("topic", "create", topic, "-p", "1")
        run("produce", topic, given="1\n2\n3\n4\n")
        run("consume", topic, "-e", "-n", "1", "--group", "lagging")
    rows = json.loads(run("group", "describe", "lagging", "-o", "json").stdout)

    assert [(row["scope"], row["topic"], row["lag"]) for row in rows] == [
        ("partition", "g-a", 3),
        ("partition", "g-b", 3),
        ("topic", "g-a", 3),
        ("topic", "g-b", 3),
        ("total", None, 6),
    ]
    assert run("group", "describe", "lagging").stdout.startswith("lagging: Empty, 0 members\n")


def test_groups_are_listed_and_deleted(run: Run) -> None:
    run("topic", "create", "g-del", "-p", "1")
    run("produce", "g-del", given="1\n")
    run("consume", "g-del", "-e", "--group", "doomed")
    listed = run("group", "list", "-o", "names").stdout.splitlines()
    asked, done = run("group", "delete", "doomed"), run("group", "delete", "doomed", "--yes")

    assert "doomed" in listed
    assert (asked.returncode, asked.stdout) == (1, "would delete doomed (Empty)\n")
    assert (done.returncode, done.stdout) == (0, "deleted doomed\n")
    assert "doomed" not in run("group", "list", "-o", "names").stdout.splitlines()


@pytest.mark.parametrize(
    ("flags", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 5),
        (("--to-offset", "3"), 3),
        (("--to-offset", "99"), 5),
        (("--to-datetime", "1h"), 0),
        (("--shift-by", "-1"), 1),
        (("--shift-by", "2"), 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_reset_shows_its_plan_and_commits_with_yes(run: Run, flags: tuple[str, ...], offset: int) -> None:
    topic = group = "g-reset" + "".join(flags).replace("-", "")
    run("topic", "create", topic, "-p", "1")
    run("produce", topic, given="1\n2\n3\n4\n5\n")
    run("consume", topic, "-n", "2", "--group", group)
    shown = run("group", "reset", group, "--topic", topic, *flags, "-o", "json")
    before = committed(run, group, topic)
    done = run("group", "reset", group, "--all-topics", *flags, "--yes")

    assert [(row["committed"], row["new"]) for row in json.loads(shown.stdout)] == [(2, offset)]
    assert shown.stderr == "qanat: nothing was reset: add --yes to do it\n"
    assert (before, done.returncode, committed(run, group, topic)) == ([2], 0, [offset])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "nobody"), "there is no group nobody; "),
        (("delete", "nobody", "--yes"), "there is no group nobody; "),
        (("reset", "g", "--topic", "x"), "say where to, once: --to, --to-earliest, --to-latest, "),
        (("reset", "g", "--to-latest"), "say which topics: --topic orders, or --all-topics"),
        (
            ("reset", "g", "--all-topics", "--to-latest"),
            "the group has no committed offsets: name a topic with --topic",
        ),
        (("reset", "g", "--topic", "g-none", "--to-latest"), "there is no topic g-none"),
        (("reset", "g", "--topic", "x:y", "--to-latest"), "--topic x:y: partitions are numbers, orders:0,2"),
        (
            ("reset", "g", "--topic", "x", "--to-datetime", "soon"),
            "'soon' is not a point in time: write 2h, 30m, 7d (ago), ",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("group", *arguments)

    assert result.returncode == 1
    assert result.stderr.startswith(f"qanat: {message}")
    assert result.stderr.count("\n") == 1


def test_a_group_of_the_new_protocol_shows_its_type_its_epochs_and_its_members(run: Run, broker_address: str) -> None:
    run("topic", "create", "g-new", "-p", "2")
    run("produce", "g-new", given="1\n2\n")
    consumer = Consumer(
        {
            "bootstrap.servers": broker_address,
            "group.id": "modern",
            "group.protocol": "consumer",
            "client.id": "reader",
        }
    )
    consumer.subscribe(["g-new"])
    deadline = time.monotonic() + 40
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline, "waited in vain"
        consumer.poll(0.1)
    rows = json.loads(run("group", "describe", "modern", "-o", "json").stdout)
    listed = [row for row in json.loads(run("group", "list", "-o", "json").stdout) if row["group"] == "modern"]
    shown = run("group", "describe", "modern").stdout.splitlines()[0]
    consumer.close()

    held = [row for row in rows if row["scope"] == "partition"]
    assert [(row["partition"], row["client"], row["member_state"]) for row in held] == [
        (0, "reader", "settled"),
        (1, "reader", "settled"),
    ]
    assert {(row["type"], row["epoch"], row["assignor"]) for row in rows} == {("consumer", 1, "uniform")}
    assert [(row["type"], row["state"]) for row in listed] == [("consumer", "Stable")]
    assert shown == "modern: Stable, 1 member, assignor uniform, type consumer, epoch 1, assignment of epoch 1"


def test_the_lag_of_all_groups_is_listed_the_worst_first(run: Run) -> None:
    run("topic", "create", "g-lag", "-p", "1")
    run("produce", "g-lag", given="1\n2\n3\n4\n")
    run("consume", "g-lag", "-e", "-n", "1", "--group", "lag-far")
    run("consume", "g-lag", "-e", "-n", "3", "--group", "lag-near")

    def listed(*flags: str) -> list[tuple[str, int]]:
        rows = json.loads(run("group", "lag", "lag-far", "lag-near", "-o", "json", *flags).stdout)
        return [(row["group"], row["records"]) for row in rows]

    # The collector may have passed a moment before the commits.
    deadline = time.monotonic() + 60
    while run("group", "lag", "lag-far", "lag-near").returncode or listed("--sort", "group")[1] != ("lag-near", 1):
        assert time.monotonic() < deadline
        time.sleep(0.5)

    assert listed("--sort", "records") == [("lag-far", 3), ("lag-near", 1)]
    assert listed("--sort", "records", "-n", "1") == [("lag-far", 3)]
    assert listed("--state", "stalled") == []
    unknown = run("group", "lag", "lag-nobody")
    assert unknown.returncode != 0
    assert "there is no lag of group lag-nobody" in unknown.stderr
