"""The topics in a consumer's subscription: the only part of members' bytes that a coordinator reads.

Offsets of topics that no member reads expire, those that are read cannot be
deleted (KIP-211, KIP-496). Unreadable bytes stay opaque: the
group works, its topics are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

CONSUMER = "consumer"
"""The protocol type of consumers; Connect and others have their own."""

_VERSION_BYTES = 2
_COUNT_BYTES = 4
_LENGTH_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic in any subscription; None where one of them cannot be read."""
    topics: list[str] = []
    for subscription in subscriptions:
        found = _topics_in(subscription)
        if found is None:
            return None
        topics += found
    return frozenset(topics)


def _topics_in(subscription: bytes) -> list[str] | None:
    """ConsumerProtocolSubscription: version, then the topics' names in every version alike."""
    at = _VERSION_BYTES + _COUNT_BYTES
    if len(subscription) < at:
        return None
    count = int.from_bytes(subscription[_VERSION_BYTES:at], "big", signed=True)
    topics = []
    for _ in range(count):
        end = at + _LENGTH_BYTES
        length = int.from_bytes(subscription[at:end], "big", signed=True)
        if end + length > len(subscription) or length < 0 or end > len(subscription):
            return None
        try:
            topics.append(subscription[end : end + length].decode())
        except UnicodeDecodeError:
            return None
        at = end + length
    return topics
