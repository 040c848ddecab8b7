"""What a group reads: named topics, topics that an expression stands for, and whether that has changed.

Expressions are in RE2's language, which needs time in proportion to the names (KIP-848); they must match a whole
name and never stand for internal topics. Topics are looked at again when the cluster's metadata has a new revision.
Where members may not see all topics, an expression stands for what all who use it may see.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerGroupRecord, ConsumerTombstone, ExpressionRecord, RecordKind
from qanat.groups.turn import TopicView, Turn

_DIGEST_BYTES = 8


def expression_error(expression: str) -> str | None:
    """What is wrong with an expression; None where nothing is."""
    # Imported late: most brokers never see an expression.
    from qanat.wire.patterns import InvalidPatternError, pattern

    try:
        pattern(expression)
    except InvalidPatternError as fault:
        return str(fault)
    return None


def refresh(turn: Turn, group: ConsumerGroup, *, is_changed: bool) -> None:
    """A new epoch where members or their subscriptions have changed, or the topics that they read."""
    topics, seen = turn.state.topics, turn.state.seen_revisions
    if not is_changed and seen.get(group.group_id) == topics.revision:
        return
    _resolve(turn, group)
    seen[group.group_id] = topics.revision
    digest = topics_digest(group.subscribed_topics(), topics)
    if is_changed or digest != group.topics_digest:
        turn.write(ConsumerGroupRecord(group.group_id, group.epoch + 1, digest))


def topics_digest(names: Iterable[str], topics: TopicView) -> int:
    """A number that changes with the topics that a group reads, their ids and their partitions; 0 for none."""
    digest, is_empty = blake2b(digest_size=_DIGEST_BYTES), True
    found = sorted((name, topic_id) for name in names if (topic_id := topics.topic_id(name)) is not None)
    for name, topic_id in found:
        if (count := topics.partition_count(name)) is not None:
            is_empty = False
            digest.update(topic_id + count.to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def _resolve(turn: Turn, group: ConsumerGroup) -> None:
    """Write down what the members' expressions stand for now; those that nobody uses any more are forgotten."""
    used = {member.expression: None for member in group.members.values() if member.expression}
    for expression in [one for one in group.expressions if one not in used]:
        turn.write(ConsumerTombstone(group.group_id, RecordKind.EXPRESSION, expression))
    for expression in used:
        present = group.expressions.get(expression)
        names = _visible(turn, group, expression, () if present is None else present.topics)
        if present is None or present.topics != names:
            revision = turn.state.topics.revision
            turn.write(ExpressionRecord(group.group_id, expression, names, revision, turn.now.wall_ms))


def _visible(turn: Turn, group: ConsumerGroup, expression: str, present: tuple[str, ...]) -> tuple[str, ...]:
    """Topics that match and that all members who use the expression may see: they share what it stands for."""
    names = _matching(turn, expression)
    if not turn.state.is_authorized:
        return names
    users = [member.member_id for member in group.members.values() if member.expression == expression]
    sights = dict.fromkeys(turn.state.sights.get((group.group_id, member_id)) for member_id in users)
    if None in sights:
        names = tuple(name for name in names if name in present)
    return tuple(name for name in names if all(sight is None or sight(name) for sight in sights))


def _matching(turn: Turn, expression: str) -> tuple[str, ...]:
    """Topics whose names match; groups with the same expression share one look at them."""
    revision, known = turn.state.matches
    if revision != turn.state.topics.revision:
        known = {}
        turn.state.matches = (turn.state.topics.revision, known)
    if expression not in known:
        from qanat.wire.patterns import pattern

        matches = pattern(expression).matches
        known[expression] = tuple(name for name in sorted(turn.state.topics.names()) if matches(name))
    return known[expression]
