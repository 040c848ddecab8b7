"""Each part of a broker is called for the changes that concern it, and only for those."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

import pytest
from tests.cluster.images import apply, image_with, new_topic_id

from qanat.broker.metadata_events import EventTargets, MetadataEvents
from qanat.cluster import format_levels, keys, values
from qanat.cluster.store import Event, EventKind, Put, Revision

NODE_ID, OTHER_ID = 1, 2
TOPIC = values.Topic(name="orders", topic_id=str(new_topic_id()), partitions=((NODE_ID,), (OTHER_ID,)))


def recorded() -> tuple[Mock, MetadataEvents]:
    image = image_with((NODE_ID, OTHER_ID))
    apply(image, [Put(keys.topic(TOPIC.name), values.encode(TOPIC))])
    parts = Mock()
    parts.node_id, parts.metadata.image = NODE_ID, image
    return parts, MetadataEvents(cast(EventTargets, parts), parts.on_topic_deleted, parts.on_group_config)


def called(parts: Mock) -> list[str]:
    """What was called, but for the parts that see every change."""
    names = [name for name, _, _ in parts.mock_calls]
    return [name for name in names if name not in ("controlled_shutdown.note", "controller_loop.note")]


def event(key: str, kind: EventKind = EventKind.PUT) -> Event:
    return Event(kind, key, b"", Revision(9))


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        (event(keys.broker(NODE_ID)), ["membership.note_change", "local_replicas.lead_or_follow_all"]),
        (event(keys.broker(OTHER_ID)), []),
        (event(keys.topic_config("orders")), ["local_replicas.apply_settings"]),
        (event(keys.topic("orders")), ["local_replicas.reconcile_soon"]),
        (event(keys.topic("orders"), EventKind.DELETE), ["local_replicas.reconcile_soon", "on_topic_deleted"]),
        (event(keys.partition(TOPIC.identity, 1)), ["local_replicas.lead_or_follow"]),
        (event(keys.partition(TOPIC.identity, 2)), []),
        (event(keys.partition(new_topic_id(), 0)), []),
        (event(keys.broker_config(None)), ["current_settings.apply"]),
        (event(keys.broker_config(NODE_ID)), ["current_settings.apply"]),
        (event(keys.broker_config(OTHER_ID)), []),
        (event(keys.group_config("workers")), ["on_group_config"]),
        (event(keys.FORMAT), []),
        (event(keys.failure_report(OTHER_ID)), ["failure_detection.note"]),
        (event(keys.CONTROLLER), []),
        (event("/qanat/unheard-of"), []),
    ],
    ids=lambda value: f"{value.kind.name} {value.key}" if isinstance(value, Event) else "",
)
def test_a_change_is_dispatched_by_its_key(change: Event, calls: list[str]) -> None:
    parts, events = recorded()

    events.dispatch([change])

    assert called(parts) == calls


def test_the_controller_sees_all_changes_at_once_before_any_other_part() -> None:
    parts, events = recorded()
    changes = [event(keys.topic("orders")), event(keys.broker(OTHER_ID))]

    events.dispatch(changes)

    assert [name for name, _, _ in parts.mock_calls] == [
        "controlled_shutdown.note",
        "controller_loop.note",
        "local_replicas.reconcile_soon",
    ]
    parts.controller_loop.note.assert_called_once_with(changes)


def test_a_broker_that_is_too_old_for_its_cluster_stands_aside() -> None:
    parts, events = recorded()
    level = values.encode(values.ClusterFormat(level=format_levels.NEWEST + 1))
    apply(parts.metadata.image, [Put(keys.FORMAT, level)])

    events.dispatch([event(keys.FORMAT)])

    assert "storage_faults.step_down" in called(parts)
    assert called(parts)[-1] == "park"
