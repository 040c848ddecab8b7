"""What a share group reads, and of which partitions it keeps a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qanat.groups.consumer.subscriptions import topics_digest
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import SharedTopic, ShareGroupRecord, ShareTopicsRecord
from qanat.groups.turn import Turn


def refresh(turn: Turn, group: ShareGroup, *, is_changed: bool) -> None:
    """A new epoch where members or their subscriptions have changed, or the topics that they read."""
    topics, seen = turn.state.topics, turn.state.seen_revisions
    if not is_changed and seen.get(group.group_id) == topics.revision:
        return
    seen[group.group_id] = topics.revision
    digest = topics_digest(group.subscribed_topics(), topics)
    if is_changed or digest != group.topics_digest:
        turn.write(ShareGroupRecord(group.group_id, group.epoch + 1, digest))
        _write_topics(turn, group)


def _write_topics(turn: Turn, group: ShareGroup) -> None:
    """What is read is added; what nobody reads any more stays, until its topic is gone or the group is."""
    topics = turn.state.topics
    read = []
    for name in group.subscribed_topics():
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is not None and count is not None:
            read.append(SharedTopic(topic_id, name, tuple(range(count))))
    change_topics(turn, group, added=read, removed=())


def change_topics(turn: Turn, group: ShareGroup, added: Iterable[SharedTopic], removed: Iterable[bytes]) -> None:
    """Write down of which partitions a state is kept, if that has changed; topics that are gone are left out."""
    kept = {topic_id: one for topic_id, one in group.topics.items() if turn.state.topics.topic_name(topic_id)}
    for one in added:
        present = kept.get(one.topic_id)
        numbers = (*one.partitions, *(present.partitions if present else ()))
        kept[one.topic_id] = SharedTopic(one.topic_id, one.name, tuple(sorted(dict.fromkeys(numbers))))
    for topic_id in removed:
        kept.pop(topic_id, None)
    if kept != group.topics:
        turn.write(ShareTopicsRecord(group.group_id, _in_order(kept)))


def _in_order(topics: Mapping[bytes, SharedTopic]) -> tuple[SharedTopic, ...]:
    return tuple(sorted(topics.values(), key=lambda one: (one.name, one.topic_id)))
