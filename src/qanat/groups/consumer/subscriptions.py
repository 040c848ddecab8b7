"""What a group reads: named topics, topics that match an expression, and whether that has changed.

Expressions are in RE2's language, which takes time linear in the names (KIP-848); they must match a whole
name and never match internal topics. Topics are resolved again when the cluster's metadata has a new revision.

Where members may not see all topics, an expression stands for the topics that all its users may see.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerGroupRecord, ConsumerTombstone, ExpressionRecord, RecordKind
from qanat.groups.decision_builder import DecisionBuilder, TopicView

_DIGEST_BYTES = 8


def expression_error(expression: str) -> str | None:
    """What is wrong with an expression; None where nothing is."""
    # Imported late: most brokers never see an expression.
    from qanat.groups.client_regex import InvalidPatternError, pattern

    try:
        pattern(expression)
    except InvalidPatternError as fault:
        return str(fault)
    return None


def refresh(builder: DecisionBuilder, group: ConsumerGroup, *, is_changed: bool) -> None:
    """A new epoch where members or their subscriptions have changed, or the topics that they read."""
    topics, seen = builder.state.topics, builder.state.seen_revisions
    if not is_changed and seen.get(group.group_id) == topics.revision:
        return
    _resolve(builder, group)
    seen[group.group_id] = topics.revision
    digest = topics_digest(group.subscribed_topics(), topics)
    if is_changed or digest != group.topics_digest:
        builder.write(ConsumerGroupRecord(group.group_id, group.epoch + 1, digest))


def topics_digest(names: Iterable[str], topics: TopicView) -> int:
    """A number that changes with the topics that a group reads, their ids and their partitions; 0 for none."""
    digest, is_empty = blake2b(digest_size=_DIGEST_BYTES), True
    found = sorted((name, topic_id) for name in names if (topic_id := topics.topic_id(name)) is not None)
    for name, topic_id in found:
        if (count := topics.partition_count(name)) is not None:
            is_empty = False
            digest.update(topic_id + count.to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def _resolve(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """Write the topics that match the members' expressions now; unused expressions are removed."""
    used = {member.expression: None for member in group.members.values() if member.expression}
    for expression in [one for one in group.expressions if one not in used]:
        builder.write(ConsumerTombstone(group.group_id, RecordKind.EXPRESSION, expression))
    for expression in used:
        present = group.expressions.get(expression)
        names = _visible(builder, group, expression, () if present is None else present.topics)
        if present is None or present.topics != names:
            revision = builder.state.topics.revision
            builder.write(ExpressionRecord(group.group_id, expression, names, revision, builder.now.wall_ms))


def _visible(
    builder: DecisionBuilder, group: ConsumerGroup, expression: str, present: tuple[str, ...]
) -> tuple[str, ...]:
    """Topics that match and that all members with the expression may see: they share its topics."""
    names = _matching(builder, expression)
    if not builder.state.is_authorized:
        return names
    users = [member.member_id for member in group.members.values() if member.expression == expression]
    visibilities = dict.fromkeys(builder.state.visibilities.get((group.group_id, member_id)) for member_id in users)
    if None in visibilities:
        names = tuple(name for name in names if name in present)
    return tuple(name for name in names if all(visibility is None or visibility(name) for visibility in visibilities))


def _matching(builder: DecisionBuilder, expression: str) -> tuple[str, ...]:
    """Topics whose names match; groups with the same expression share the result."""
    revision, known = builder.state.matches
    if revision != builder.state.topics.revision:
        known = {}
        builder.state.matches = (builder.state.topics.revision, known)
    if expression not in known:
        from qanat.groups.client_regex import pattern

        matches = pattern(expression).matches
        known[expression] = tuple(name for name in sorted(builder.state.topics.names()) if matches(name))
    return known[expression]
