"""Commands that change something print a sentence, and rows for programs; misspelled names are suggested."""

from __future__ import annotations

import json

import pytest
from tests.app.conftest import Run

from qanat.app.groups.reset import ago


def rows(run: Run, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run(*arguments, "-o", "json").stdout)
    return found


def test_what_is_done_to_topics_comes_as_rows(run: Run) -> None:
    created = rows(run, "topic", "create", "d-topic", "-p", "2")
    there = rows(run, "topic", "create", "d-topic", "--if-not-exists")
    altered = rows(run, "topic", "alter", "d-topic", "retention.ms=1000", "--delete", "segment.bytes")
    set_back = rows(run, "config", "set", "topic", "d-topic", "retention.ms=2000", "--dry-run")
    grown = rows(run, "topic", "add-partitions", "d-topic", "--to", "3")
    asked = rows(run, "topic", "delete", "d-topic")
    deleted = rows(run, "topic", "delete", "d-topic", "--execute")

    assert created == [{"topic": "d-topic", "partitions": 2, "done": "created"}]
    assert [row["done"] for row in there] == ["exists"]
    assert altered == [
        {"name": "d-topic", "setting": "retention.ms", "value": "1000", "done": "has"},
        {"name": "d-topic", "setting": "segment.bytes", "value": None, "done": "has"},
    ]
    assert [row["done"] for row in set_back] == ["would have"]
    assert grown == [{"topic": "d-topic", "partitions": 3, "done": "has"}]
    assert asked == [{"topic": "d-topic", "partitions": 3, "done": "would delete"}]
    assert [row["done"] for row in deleted] == ["deleted"]


def test_what_is_done_to_groups_comes_as_rows(run: Run) -> None:
    run("topic", "create", "d-read", "-p", "1")
    run("produce", "d-read", given="a\nb\nc\n")
    run("consume", "d-read", "-e", "--group", "d-group")
    sought = rows(run, "group", "seek", "d-group", "--topics", "d-read", "--to", "+1", "--execute")
    current = rows(run, "group", "reset", "d-group", "--all-topics", "--to-current", "--dry-run")
    recent = rows(run, "group", "reset", "d-group", "--all-topics", "--by-duration", "PT1H", "--dry-run")
    asked = rows(run, "group", "delete", "d-group", "--dry-run")
    deleted = rows(run, "group", "delete", "d-group", "--yes")

    assert [(row["committed"], row["new"]) for row in sought] == [(3, 1)]
    assert [(row["committed"], row["new"]) for row in current] == [(1, 1)]
    assert [(row["committed"], row["new"]) for row in recent] == [(1, 0)]
    assert asked == [{"group": "d-group", "state": "Empty", "done": "would delete"}]
    assert [row["done"] for row in deleted] == ["deleted"]


def test_where_to_is_said_once(run: Run) -> None:
    refused = run("group", "reset", "d-any", "--all-topics", "--to", "start", "--to-latest")

    assert refused.returncode == 1
    assert refused.stderr.startswith("qanat: say where to, once: --to, --to-earliest")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "alter", "d-oders", "retention.ms=1"),
        ("topic", "add-partitions", "d-oders", "--to", "9"),
        ("topic", "trim", "d-oders", "--before", "end"),
        ("topic", "delete", "d-oders"),
        ("topic", "describe", "d-oders"),
        ("config", "get", "topic", "d-oders"),
        ("config", "set", "topic", "d-oders", "retention.ms=1"),
        ("consume", "d-oders", "-e"),
        ("group", "reset", "d-any", "--topic", "d-oders", "--to-latest"),
        ("transaction", "describe", "--partition", "d-oders:0"),
    ],
)
def test_a_topic_that_is_not_there_is_named_with_the_nearest(run: Run, arguments: tuple[str, ...]) -> None:
    run("topic", "create", "d-orders", "--if-not-exists")
    refused = run(*arguments)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "qanat: there is no topic d-oders; did you mean d-orders?\n"


def test_a_group_that_is_not_there_is_named_with_the_nearest(run: Run) -> None:
    run("topic", "create", "d-billed", "-p", "1", "--if-not-exists")
    run("consume", "d-billed", "-e", "--group", "d-billing")
    refused = run("group", "describe", "d-biling")

    assert refused.returncode == 1
    assert refused.stderr.startswith("qanat: there is no group d-biling; did you mean d-billing?")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("group", "describe", "zzzzzz"), "there is no group zzzzzz; qanat group list shows those that exist"),
        (("txn", "describe", "zzz"), "there is no transactional id zzz; qanat transaction list shows those that exist"),
        (("config", "get", "broker", "77"), "broker 77 is not there; there are 0: BROKER_NOT_AVAILABLE"),
    ],
)
def test_an_unknown_name_is_refused_with_where_to_look(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    refused = run(*arguments)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"qanat: {expected}")
    assert refused.stderr.count("\n") == 1


def test_of_several_topics_those_that_were_created_are_listed(run: Run) -> None:
    done = run("topic", "create", "d-first", "no/name")

    assert done.returncode == 1
    assert done.stdout in ("", "created d-first with 4 partitions\n"), "one at a time, or all or none"
    assert done.stderr.startswith("qanat: cannot create topic no/name: ")


def test_durations_are_taken_in_both_forms() -> None:
    assert [ago(text) for text in ("PT2H30M", "P1DT1S", "PT5S", "2h", "P")] == ["9000s", "86401s", "5s", "2h", "P"]
