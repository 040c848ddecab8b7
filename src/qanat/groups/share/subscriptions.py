"""What a share group reads, and for which partitions it has a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qanat.groups.consumer.subscriptions import topics_digest
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import SharedTopic, ShareGroupRecord, ShareTopicsRecord


def refresh(builder: DecisionBuilder, group: ShareGroup, *, is_changed: bool) -> None:
    """A new epoch where members or their subscriptions have changed, or the topics that they read."""
    topics, seen = builder.state.topics, builder.state.seen_revisions
    if not is_changed and seen.get(group.group_id) == topics.revision:
        return
    seen[group.group_id] = topics.revision
    digest = topics_digest(group.subscribed_topics(), topics)
    if is_changed or digest != group.topics_digest:
        builder.write(ShareGroupRecord(group.group_id, group.epoch + 1, digest))
        _write_topics(builder, group)


def _write_topics(builder: DecisionBuilder, group: ShareGroup) -> None:
    """Add new topics; a topic that is no longer read stays, until it or the group is deleted."""
    topics = builder.state.topics
    read = []
    for name in group.subscribed_topics():
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is not None and count is not None:
            read.append(SharedTopic(topic_id, name, tuple(range(count))))
    change_topics(builder, group, added=read, removed=())


def change_topics(
    builder: DecisionBuilder, group: ShareGroup, added: Iterable[SharedTopic], removed: Iterable[bytes]
) -> None:
    """Write the partitions that have a state, if they have changed; deleted topics are left out."""
    kept = {topic_id: one for topic_id, one in group.topics.items() if builder.state.topics.topic_name(topic_id)}
    for one in added:
        present = kept.get(one.topic_id)
        numbers = (*one.partitions, *(present.partitions if present else ()))
        kept[one.topic_id] = SharedTopic(one.topic_id, one.name, tuple(sorted(dict.fromkeys(numbers))))
    for topic_id in removed:
        kept.pop(topic_id, None)
    if kept != group.topics:
        builder.write(ShareTopicsRecord(group.group_id, _in_order(kept)))


def _in_order(topics: Mapping[bytes, SharedTopic]) -> tuple[SharedTopic, ...]:
    return tuple(sorted(topics.values(), key=lambda one: (one.name, one.topic_id)))
