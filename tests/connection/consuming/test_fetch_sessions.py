"""Fetch sessions: what a request names, and when it begins anew; a broker in memory remembers the rest."""

from __future__ import annotations

import random

import pytest

from qanat.connection.consuming.fetch_sessions import FetchSession, FetchTerms, Wanted
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.fetch import FetchRequest

TERMS = FetchTerms()
IDS = {"t": b"t" * 16, "u": b"u" * 16}


def wanted(**offsets: int) -> dict[TopicPartition, Wanted]:
    """`t0=5` is offset 5 of partition 0 of t."""
    return {
        TopicPartition(name[0], int(name[1:])): Wanted(IDS[name[0]], offset, 0, 100) for name, offset in offsets.items()
    }


def named(request: FetchRequest) -> dict[str, int]:
    return {f"{topic.topic}{one.partition}": one.fetch_offset for topic in request.topics for one in topic.partitions}


def test_the_first_request_is_full_and_the_next_names_changes_only() -> None:
    session = FetchSession()
    first = session.request(wanted(t0=5, u1=7), TERMS, can_use_ids=True)
    assert session.answered(ErrorCode.NONE, 42)
    second = session.request(wanted(t0=6, u1=7), TERMS, can_use_ids=True)

    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, {"t0": 5, "u1": 7})
    assert (second.session_id, second.session_epoch, named(second)) == (42, 1, {"t0": 6})
    assert second.forgotten_topics_data == []


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    session = FetchSession()
    session.request(wanted(t0=5, u1=7), TERMS, can_use_ids=True)
    session.answered(ErrorCode.NONE, 42)
    request = session.request(wanted(t0=5), TERMS, can_use_ids=True)

    assert [(one.topic, one.partitions) for one in request.forgotten_topics_data] == [("u", [1])]
    assert request.topics == []


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_is_over_begins_anew(code: ErrorCode) -> None:
    session = FetchSession()
    session.request(wanted(t0=5), TERMS, can_use_ids=True)
    session.answered(ErrorCode.NONE, 42)
    session.request(wanted(t0=5), TERMS, can_use_ids=True)

    assert not session.answered(code, 0)
    request = session.request(wanted(t0=5), TERMS, can_use_ids=True)
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {"t0": 5})


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = FetchSession()
    session.request(wanted(t0=5), TERMS, can_use_ids=True)

    assert session.answered(ErrorCode.NONE, 0)
    assert named(session.request(wanted(t0=5), TERMS, can_use_ids=True)) == {"t0": 5}


def test_topics_are_known_by_id_only_where_all_have_one() -> None:
    session = FetchSession()
    session.request(wanted(t0=5), TERMS, can_use_ids=True)
    assert (session.uses_ids, session.name_of("", IDS["t"])) == (True, "t")
    session.answered(ErrorCode.NONE, 42)
    request = session.request({TopicPartition("t", 0): Wanted(bytes(16), 5, 0, 100)}, TERMS, can_use_ids=True)

    assert (session.uses_ids, session.name_of("t", bytes(16))) == (False, "t")
    assert request.session_id == 0


def test_a_topic_made_anew_begins_a_new_session() -> None:
    session = FetchSession()
    session.request(wanted(t0=5), TERMS, can_use_ids=True)
    session.answered(ErrorCode.NONE, 42)
    request = session.request({TopicPartition("t", 0): Wanted(b"n" * 16, 0, 0, 100)}, TERMS, can_use_ids=True)

    assert (request.session_id, request.session_epoch) == (0, 0)


def test_only_an_open_session_is_closed() -> None:
    session = FetchSession()
    assert session.close_request() is None
    session.request(wanted(t0=5), TERMS, can_use_ids=True)
    session.answered(ErrorCode.NONE, 42)
    closing = session.close_request()

    assert closing is not None
    assert (closing.session_id, closing.session_epoch) == (42, -1)


class Remembering:
    """The broker's side of KIP-227."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._id = 0
        self._epoch = 0
        self.known: dict[TopicPartition, int] = {}

    def serve(self, request: FetchRequest) -> tuple[int, int]:
        if request.session_epoch == 0:
            self._id, self._epoch, self.known = self._chance.randint(1, 1000), 0, {}
        elif request.session_id != self._id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0
        elif request.session_epoch != self._epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                self.known.pop(TopicPartition(gone.topic, number), None)
        for topic in request.topics:
            for one in topic.partitions:
                self.known[TopicPartition(topic.topic, one.partition)] = one.fetch_offset
        self._epoch += 1
        return ErrorCode.NONE, self._id


@pytest.mark.parametrize("seed", range(100))
def test_the_broker_always_knows_what_is_wanted_or_says_so(seed: int) -> None:
    chance = random.Random(seed)
    broker, session = Remembering(chance), FetchSession()
    for _ in range(40):
        names = chance.sample(["t0", "t1", "u0", "u1"], chance.randint(0, 4))
        now = wanted(**{name: chance.randint(0, 3) for name in names})
        request = session.request(now, TERMS, can_use_ids=True)
        code, session_id = broker.serve(request)
        if chance.random() < 0.1:
            session.reset()  # The answer is lost.
            continue
        if chance.random() < 0.1:
            broker = Remembering(chance)  # The broker restarts.
        if session.answered(code, session_id) and code == ErrorCode.NONE and broker.known:
            assert broker.known == {at: one.offset for at, one in now.items()}
