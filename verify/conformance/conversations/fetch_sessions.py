"""Fetch sessions (KIP-227): the partitions of an incremental answer, and the end of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import batch, conversation, fill, make_topic, topic_id


def _request(
    session_id: int,
    epoch: int,
    topic: tuple[str, bytes],
    rows: Sequence[tuple[int, int]] = (),
    forgotten: Sequence[int] = (),
) -> FetchRequest:
    partitions = [FetchPartition(number, -1, offset, partition_max_bytes=10_000) for number, offset in rows]
    return FetchRequest(
        max_bytes=100_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(*topic, partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(*topic, list(forgotten))] if forgotten else [],
    )


def _through_a_session(play: Play, version: int) -> None:
    name = make_topic(play, f"v{version}", partitions=3)
    topic = name, topic_id(play, name)
    fill(play, name, batch(b"a", b"b"), partition=0)

    def exchange(note: str, *arguments: Any) -> Any:
        return play.exchange(ApiKey.FETCH, version, _request(*arguments), note)

    session_id = exchange("a new session", 0, 0, topic, [(0, 0), (1, 0), (2, 0)]).session_id
    exchange("nothing new but what is read again", session_id, 1, topic)
    exchange("the first partition moves on", session_id, 2, topic, [(0, 2)])
    exchange("nothing new", session_id, 3, topic)
    fill(play, name, batch(b"c"), partition=1)
    exchange("records in the second", session_id, 4, topic)
    exchange("the second moves on", session_id, 5, topic, [(1, 1)])
    exchange("the third is forgotten", session_id, 6, topic, (), [2])
    fill(play, name, batch(b"d"), partition=2)
    exchange("nothing of what is forgotten", session_id, 7, topic)
    exchange("an unknown partition joins", session_id, 8, topic, [(7, 0)])
    exchange("and is named again", session_id, 9, topic)
    exchange("a partition out of range", session_id, 10, topic, [(0, 99)])
    exchange("a wrong epoch", session_id, 9, topic)
    exchange("the right epoch after a wrong one", session_id, 11, topic)
    exchange("a full fetch within a session", session_id, 0, topic, [(0, 0)])
    exchange("of the old session nothing is left", session_id, 12, topic)


@conversation
def fetch_session_by_name(play: Play) -> None:
    _through_a_session(play, 11)


@conversation
def fetch_session_by_id(play: Play) -> None:
    _through_a_session(play, 17)


@conversation
def fetch_session_oldest_version(play: Play) -> None:
    _through_a_session(play, 7)


@conversation
def fetch_session_errors(play: Play) -> None:
    name = make_topic(play)
    topic = name, topic_id(play, name)
    fill(play, name, batch(b"a"))
    for version in (7, 12, 13):
        play.exchange(ApiKey.FETCH, version, _request(123456, 1, topic, [(0, 0)]), "unknown session")
        play.exchange(ApiKey.FETCH, version, _request(0, 5, topic, [(0, 0)]), "an epoch without a session")
        play.exchange(ApiKey.FETCH, version, _request(123456, -1, topic, [(0, 0)]), "the end of an unknown session")
        play.exchange(
            ApiKey.FETCH, version, _request(123456, 0, topic, [(0, 0)]), "a beginning instead of an unknown one"
        )
        answer = play.exchange(ApiKey.FETCH, version, _request(0, 0, topic, [(0, 0)]), "a session")
        play.exchange(ApiKey.FETCH, version, _request(answer.session_id, -1, topic, [(0, 0)]), "ends")
        play.exchange(ApiKey.FETCH, version, _request(answer.session_id, 1, topic), "and is gone")
        play.exchange(ApiKey.FETCH, version, _request(0, 0, topic), "a session of nothing")


@conversation
def fetch_session_of_unknown_topics(play: Play) -> None:
    name = make_topic(play)
    known = topic_id(play, name)
    for version in (12, 13):
        rows = [FetchPartition(0, -1, 0, partition_max_bytes=10_000)]
        topics = [FetchTopic(name, known, rows), FetchTopic("nobody", b"\x07" * 16, rows)]
        request = FetchRequest(max_bytes=100_000, session_epoch=0, topics=topics)
        session_id = play.exchange(ApiKey.FETCH, version, request, "one is unknown").session_id
        play.exchange(ApiKey.FETCH, version, _request(session_id, 1, (name, known)), "is named again")
