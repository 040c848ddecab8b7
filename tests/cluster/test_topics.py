"""Topics are created, deleted and extended by Kafka's rules, and refused in its words."""

from __future__ import annotations

import pytest
from tests.cluster.images import apply, image_with, new_topic_id

from qanat.cluster import keys, values
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Absent, Delete, DeletePrefix, ModifiedAt, Put
from qanat.cluster.topics import (
    PARTITIONS_MAX,
    CreateTopic,
    TopicDefaults,
    TopicPlan,
    decide_add_partitions,
    decide_create,
    decide_delete,
)
from qanat.log.settings import LogSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.model.topic_names import name_problem

IMAGE = image_with([0, 1, 2])


def wish(name: str = "orders", **more: object) -> CreateTopic:
    return CreateTopic(name, new_topic_id(), **more)  # type: ignore[arg-type]


def created(outcome: TopicPlan | Rejection) -> TopicPlan:
    assert isinstance(outcome, TopicPlan), outcome
    return outcome


def refused(outcome: object) -> tuple[ErrorCode, str]:
    assert isinstance(outcome, Rejection), outcome
    return outcome.code, outcome.message


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "-", "x" * 249, "__consumer_offsets"])
def test_a_legal_name(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        *(
            (name, f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
            for name in ("a b", "a/b", "ä", "a\n", "a\0", "١", "a:b", "a,b")
        ),
    ],
)
def test_an_illegal_name_is_refused_in_kafkas_words(name: str, reason: str) -> None:
    outcome = refused(decide_create(IMAGE, wish(name), LogSettings.parse))

    assert outcome == (ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def test_a_topic_gets_the_defaults_and_one_commit() -> None:
    image, request = image_with([5]), wish(configs={"retention.ms": "1000"})
    plan = created(decide_create(image, request, LogSettings.parse))

    assert plan.topic.partitions == ((5,),) * 4
    assert plan.topic.identity == request.topic_id
    assert plan.compares == (Absent(keys.topic("orders")), Absent(keys.topic_id(request.topic_id)))
    assert plan.operations == (
        Put(keys.topic("orders"), values.encode(plan.topic)),
        Put(keys.topic_id(request.topic_id), values.encode(values.TopicReference(name="orders"))),
        Put(keys.topic_config("orders"), values.encode(values.TopicConfig(overrides={"retention.ms": "1000"}))),
    )
    apply(image, plan.operations)
    assert image.topics["orders"] == plan.topic
    assert image.overrides("orders") == {"retention.ms": "1000"}


def test_a_topic_that_exists_is_refused() -> None:
    image = image_with()
    apply(image, created(decide_create(image, wish("a"), LogSettings.parse)).operations)

    assert refused(decide_create(image, wish("a"), LogSettings.parse)) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'a' already exists.",
    )


def test_a_topic_whose_value_cannot_be_read_still_exists() -> None:
    image = image_with()
    apply(image, [Put(keys.topic("a"), b"not json")])

    assert refused(decide_create(image, wish("a"), LogSettings.parse))[0] is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c"), ("__x", "_.x")])
def test_names_that_collide_in_metrics_are_refused(first: str, second: str) -> None:
    image = image_with()
    apply(image, created(decide_create(image, wish(first), LogSettings.parse)).operations)

    assert refused(decide_create(image, wish(second), LogSettings.parse)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{second}' collides with existing topic: {first}",
    )
    apply(image, created(decide_delete(image, first)).operations)
    created(decide_create(image, wish(second), LogSettings.parse))


def test_a_dash_collides_with_nothing() -> None:
    image = image_with()
    apply(image, created(decide_create(image, wish("a-b"), LogSettings.parse)).operations)
    created(decide_create(image, wish("a_b"), LogSettings.parse))


def test_replicas_are_spread_evenly_and_never_twice_on_a_broker() -> None:
    plan = created(decide_create(IMAGE, wish(partitions=9, replication_factor=2), LogSettings.parse))

    leaders = [row[0] for row in plan.topic.partitions]
    followers = [row[1] for row in plan.topic.partitions]
    assert all(len(set(row)) == 2 for row in plan.topic.partitions)
    assert {leaders.count(node) for node in range(3)} == {followers.count(node) for node in range(3)} == {3}


def test_topics_do_not_all_begin_on_the_same_broker() -> None:
    plans = [created(decide_create(IMAGE, wish(partitions=1), LogSettings.parse)) for _ in range(3)]

    assert {plan.topic.partitions[0][0] for plan in plans} == {0, 1, 2}


def test_defaults_come_from_the_cluster() -> None:
    defaults = TopicDefaults(partitions=2, replication_factor=3)
    plan = created(decide_create(IMAGE, wish(), LogSettings.parse, defaults))

    assert [sorted(row) for row in plan.topic.partitions] == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (0, "larger than 0, or -1"),
        (-2, "larger than 0, or -1"),
        (4, "only 3 broker(s) are registered. Ask for at most 3, or for -1 to get the default, or start 1 more broker"),
    ],
)
def test_a_replication_factor_that_cannot_be_is_refused_with_what_to_do(factor: int, words: str) -> None:
    code, message = refused(decide_create(IMAGE, wish(replication_factor=factor), LogSettings.parse))

    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert words in message


@pytest.mark.parametrize("factor", [2, 3])
def test_one_broker_replicates_nothing(factor: int) -> None:
    code, message = refused(decide_create(image_with([0]), wish(replication_factor=factor), LogSettings.parse))

    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "Ask for at most 1" in message


def test_without_any_broker_one_waits() -> None:
    code, message = refused(decide_create(image_with([]), wish(), LogSettings.parse))

    assert (code, "Wait until" in message) == (ErrorCode.INVALID_REPLICATION_FACTOR, True)


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (0, ErrorCode.INVALID_PARTITIONS),
        (-2, ErrorCode.INVALID_PARTITIONS),
        (PARTITIONS_MAX + 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_number_of_partitions_that_cannot_be_is_refused(count: int, code: ErrorCode) -> None:
    assert refused(decide_create(IMAGE, wish(partitions=count), LogSettings.parse))[0] is code


def test_the_largest_topic_fits_into_one_commit() -> None:
    from qanat.cluster.store import check_commit

    plan = created(
        decide_create(IMAGE, wish("x" * 249, partitions=PARTITIONS_MAX, replication_factor=3), lambda _: None)
    )

    check_commit(plan.compares, plan.operations)


def test_a_users_own_assignment_is_taken() -> None:
    plan = created(decide_create(IMAGE, wish(assignments={1: [2, 0], 0: [1, 2]}), LogSettings.parse))

    assert plan.topic.partitions == ((1, 2), (2, 0))


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ({0: []}, "an empty replica list"),
        ({0: [0, 0]}, "the broker 0 more than once"),
        ({0: [7]}, "broker 7, but no such broker is registered"),
        ({0: [-1]}, "an invalid broker id -1"),
        ({0: [0], 1: [0, 1]}, "a partition with 2 replica(s), but this is not consistent"),
        ({0: [0], 2: [1]}, "consecutive 0-based"),
        ({1: [0]}, "consecutive 0-based"),
    ],
)
def test_a_bad_assignment_is_refused(assignments: dict[int, list[int]], words: str) -> None:
    code, message = refused(decide_create(IMAGE, wish(assignments=assignments), LogSettings.parse))

    assert (code, words in message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True), message


@pytest.mark.parametrize(
    "request_", [wish(assignments={0: [0]}, partitions=1), wish(assignments={0: [0]}, replication_factor=1)]
)
def test_an_assignment_and_a_number_contradict_each_other(request_: CreateTopic) -> None:
    assert refused(decide_create(IMAGE, request_, LogSettings.parse))[0] is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs",
    [{"retention.ms": "soon"}, {"retention.mss": "1"}, {"retention.ms": None}, {"cleanup.policy": "x" * 40000}],
)
def test_bad_settings_are_refused(configs: dict[str, str | None]) -> None:
    assert refused(decide_create(IMAGE, wish(configs=configs), LogSettings.parse))[0] is ErrorCode.INVALID_CONFIG


def test_deleting_removes_all_that_belongs_to_a_topic() -> None:
    image, request = image_with(), wish("a", configs={"retention.ms": "1"})
    apply(image, created(decide_create(image, request, LogSettings.parse)).operations)
    apply(image, [Put(keys.partition(request.topic_id, 0), b"{}")])
    untouched = dict(image_with().revisions)
    plan = created(decide_delete(image, "a"))

    assert created(decide_delete(image, request.topic_id)) == plan
    assert plan.compares == (ModifiedAt(keys.topic("a"), image.revisions[keys.topic("a")]),)
    assert plan.operations == (
        Delete(keys.topic("a")),
        Delete(keys.topic_id(request.topic_id)),
        Delete(keys.topic_config("a")),
        DeletePrefix(keys.partitions_of(request.topic_id)),
        DeletePrefix(keys.push_refreshes_of(request.topic_id)),
    )
    apply(image, plan.operations)
    assert list(image.revisions) == list(untouched)


def test_deleting_what_is_not_there_is_refused() -> None:
    assert refused(decide_delete(IMAGE, "none"))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(decide_delete(IMAGE, TopicId(new_topic_id().value)))[0] is ErrorCode.UNKNOWN_TOPIC_ID


def test_partitions_are_added_and_the_old_ones_stay_where_they_are() -> None:
    image = image_with([0, 1, 2])
    made = created(decide_create(image, wish("a", partitions=2, replication_factor=2), LogSettings.parse))
    apply(image, made.operations)
    plan = created(decide_add_partitions(image, "a", 6))

    assert plan.topic.partitions[:2] == made.topic.partitions
    assert len(plan.topic.partitions) == 6
    assert {row[0] for row in plan.topic.partitions[2:]} == {0, 1, 2}
    assert plan.compares == (ModifiedAt(keys.topic("a"), image.revision),)
    apply(image, plan.operations)
    assert image.topics["a"] == plan.topic
    assert plan.topic.topic_id == made.topic.topic_id


@pytest.mark.parametrize(
    ("count", "assignments", "code", "words"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (1, None, ErrorCode.INVALID_PARTITIONS, "currently has 2 partition(s); 1 would not be an increase"),
        (0, None, ErrorCode.INVALID_PARTITIONS, "0 would not be an increase"),
        (3 + PARTITIONS_MAX, None, ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (4, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "add 2 additional partition(s), but 1 assignment(s)"),
        (3, [[0, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition with 2 replica(s)"),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    count: int, assignments: list[list[int]] | None, code: ErrorCode, words: str
) -> None:
    image = image_with([0, 1])
    apply(image, created(decide_create(image, wish("a", partitions=2), LogSettings.parse)).operations)

    found, message = refused(decide_add_partitions(image, "a", count, assignments))

    assert (found, words in message) == (code, True), message


def test_adding_to_an_unknown_topic_is_refused() -> None:
    assert refused(decide_add_partitions(IMAGE, "none", 2))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_added_as_told() -> None:
    image = image_with([0, 1])
    apply(image, created(decide_create(image, wish("a", partitions=1), LogSettings.parse)).operations)

    assert created(decide_add_partitions(image, "a", 3, [[1], [0]])).topic.partitions[1:] == ((1,), (0,))
