"""The format level: values of an older cluster are read, and the level is raised when all brokers know it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cluster.images import apply, new_topic_id, registration

from qanat.adapters.sqlite_store import SqliteStore
from qanat.cluster import keys, values
from qanat.cluster.format_levels import NEWEST, FormatLevelError, LevelPlan, decide_level, first_level, require_known
from qanat.cluster.image import MetadataImage
from qanat.cluster.reassignments import PartitionPlan, decide_election
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Put
from qanat.model.error_codes import ErrorCode

OLDER = Path(__file__).parents[1] / "captures" / "format-level-1.tar.xz"
"""The data of three brokers, written by the last version before there were levels."""

members = st.lists(st.builds(values.Member, st.integers(0, 99), st.integers(0, 2**60)), max_size=4).map(tuple)
nodes = st.lists(st.integers(0, 99), max_size=4).map(tuple)
states = st.builds(
    values.PartitionState,
    version=st.just(1),
    leader=st.integers(-1, 99),
    leader_epoch=st.integers(0, 2**31 - 1),
    replicas=nodes,
    in_sync=members,
    eligible=members,
    adding=nodes,
    removing=nodes,
    is_recovered=st.booleans(),
)


def _image(*levels: tuple[int, int], level: int | None = None) -> MetadataImage:
    image = MetadataImage()
    for node_id, known in enumerate(levels):
        apply(image, [Put(keys.broker(node_id), values.encode(replace(registration(node_id), levels=known)))])
    if level is not None:
        apply(image, [Put(keys.FORMAT, values.encode(values.ClusterFormat(level=level)))])
    return image


@given(state=states, level=st.integers(1, NEWEST))
def test_a_state_is_read_as_it_was_written_in_every_level(state: values.PartitionState, level: int) -> None:
    assert values.decode(values.PartitionState, values.encode(state, level)) == state


def test_a_state_of_level_two_is_much_shorter() -> None:
    whole = tuple(values.Member(node_id, 12_345) for node_id in (1, 2, 3))
    state = values.PartitionState(leader=1, leader_epoch=7, replicas=(1, 2, 3), in_sync=whole)
    assert 2 * len(values.encode(state, 2)) < len(values.encode(state, 1))


def test_what_is_no_state_is_said_to_be_none() -> None:
    with pytest.raises(values.UnreadableValueError):
        values.decode(values.PartitionState, b"[1, 2]")


async def test_the_store_of_an_older_cluster_is_read_at_level_one(tmp_path: Path) -> None:
    with tarfile.open(OLDER) as older:
        older.extract("data/metadata.db", tmp_path)
    store = await SqliteStore.open(str(tmp_path / "data" / "metadata.db"))
    try:
        image = MetadataImage.of(await store.list(keys.ROOT))
    finally:
        await store.close()
    orders = image.topics["orders"]
    assert (image.format_level, image.unreadable) == (1, {})
    assert [len(image.state(orders, number).replicas) for number in range(3)] == [3, 3, 3]
    assert (str(orders.identity), 0) in image.partition_states


def test_a_new_cluster_begins_with_the_newest_level() -> None:
    image = MetadataImage()
    assert image.format_level == 1
    apply(image, [first_level()])
    assert image.format_level == NEWEST


def test_the_level_is_raised_when_every_broker_knows_it_and_then_counts() -> None:
    image = _image((1, 2), (1, 2))
    plan = decide_level(image, 2)
    assert isinstance(plan, LevelPlan)
    apply(image, plan.operations)
    assert image.format_level == 2


@pytest.mark.parametrize(
    ("image", "level", "why"),
    [
        (_image((1, 2), (1, 1)), 2, "broker 1 knows 1 to 1"),
        (_image((1, 2)), NEWEST + 1, "is not known here"),
        (_image((1, 2)), 0, "is not known here"),
        (_image((1, 2), level=2), 1, "cannot be lowered"),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_the_reason(image: MetadataImage, level: int, why: str) -> None:
    rejection = decide_level(image, level)
    assert isinstance(rejection, Rejection)
    assert rejection.code is ErrorCode.FEATURE_UPDATE_FAILED
    assert why in rejection.message


def test_whoever_registers_meanwhile_is_looked_at_again() -> None:
    plan = decide_level(_image((1, 2), (1, 2)), 2)
    assert isinstance(plan, LevelPlan)
    assert {keys.broker(0), keys.broker(1), keys.FORMAT} <= {compare.key for compare in plan.compares}


def test_a_broker_does_not_take_part_in_a_cluster_that_it_would_misread() -> None:
    require_known(NEWEST)
    with pytest.raises(FormatLevelError, match="install the version that the other brokers run"):
        require_known(NEWEST + 1)


@pytest.mark.parametrize(("level", "first"), [(1, b"{"), (2, b"[")])
def test_a_decision_is_written_in_the_form_of_the_level(level: int, first: bytes) -> None:
    image = _image((1, 2), (1, 2), level=level)
    topic = values.Topic(name="orders", topic_id=str(new_topic_id()), partitions=((0, 1),))
    apply(image, [Put(keys.topic("orders"), values.encode(topic))])
    apply(image, [Put(keys.broker(0), values.encode(registration(0)))])
    state = replace(image.state(topic, 0), leader=1)
    apply(image, [Put(keys.partition(topic.identity, 0), values.encode(state, level))])
    from qanat.cluster.elections import Rules

    members = tuple(values.Member(node_id, image.revision) for node_id in (0, 1))
    apply(image, [Put(keys.partition(topic.identity, 0), values.encode(replace(state, in_sync=members), level))])
    plan = decide_election(image, "orders", 0, Rules(), is_unclean=False)
    assert isinstance(plan, PartitionPlan)
    (operation,) = plan.operations
    assert isinstance(operation, Put)
    assert operation.value[:1] == first
