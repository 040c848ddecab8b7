"""Share sessions against a model of a broker: every verdict is applied or refused, once, whatever goes wrong."""

from __future__ import annotations

from random import Random

import pytest

from qanat.connection.consuming.member_ids import new_member_id
from qanat.connection.share_membership import ShareMember
from qanat.connection.share_sessions import FetchSize, Kind, Place, Settled, ShareSession, Verdicts
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.messages import share_acknowledge as acknowledging
from qanat.wire.kafka.messages import share_fetch as fetching
from qanat.wire.kafka.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

A, B = (b"a" * 16, 0), (b"b" * 16, 1)
SIZE = FetchSize()


class ModelBroker:
    """Locks of one member; verdicts of a partition are applied together or not at all."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.epoch = -1
        self.partitions: set[Place] = set()
        self.locked: dict[Place, set[int]] = {A: set(), B: set()}
        self.applied: dict[tuple[Place, int], int] = {}
        self.renewed: set[tuple[Place, int]] = set()

    def session_error(self, epoch: int) -> int:
        if epoch == 0:
            self.epoch = 1
            self.partitions.clear()
            return 0
        if self.epoch < 0 or self._chance.random() < 0.1:
            self.epoch = -1
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == -1:
            return 0
        assert epoch == self.epoch, "requests of a session are numbered without gaps"
        self.epoch += 1
        return 0

    def apply(self, at: Place, batches: list[tuple[int, int, list[int]]]) -> int:
        said = {offset: kinds[0] for first, last, kinds in batches for offset in range(first, last + 1)}
        assert said or not batches
        if any(offset not in self.locked[at] for offset in said):
            return ErrorCode.INVALID_RECORD_STATE
        if self._chance.random() < 0.05:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        for offset, kind in said.items():
            if kind == Kind.RENEW:
                self.renewed.add((at, offset))
                continue
            assert (at, offset) not in self.applied, "a verdict is applied once"
            self.applied[at, offset] = kind
            self.locked[at].discard(offset)
        return 0

    def fetch(self, request: fetching.ShareFetchRequest) -> fetching.ShareFetchResponse:
        error = self.session_error(request.share_session_epoch)
        if error:
            return fetching.ShareFetchResponse(error_code=error)
        rows = []
        for topic in request.topics:
            for row in topic.partitions:
                at = (bytes(topic.topic_id), row.partition_index)
                self.partitions.add(at)
                batches = [(o.first_offset, o.last_offset, o.acknowledge_types) for o in row.acknowledgement_batches]
                assert not (batches and request.share_session_epoch == 0)
                data = fetching.PartitionData(at[1], acknowledge_error_code=self.apply(at, batches) if batches else 0)
                rows.append(fetching.ShareFetchableTopicResponse(at[0], [data]))
        for gone in request.forgotten_topics_data:
            self.partitions -= {(bytes(gone.topic_id), number) for number in gone.partitions}
        return fetching.ShareFetchResponse(responses=rows)

    def acknowledge(self, request: acknowledging.ShareAcknowledgeRequest) -> acknowledging.ShareAcknowledgeResponse:
        error = self.session_error(request.share_session_epoch)
        if error:
            return acknowledging.ShareAcknowledgeResponse(error_code=error)
        rows = []
        for topic in request.topics:
            for row in topic.partitions:
                batches = [(o.first_offset, o.last_offset, o.acknowledge_types) for o in row.acknowledgement_batches]
                is_renewal = any(Kind.RENEW in kinds for _, _, kinds in batches)
                assert is_renewal <= request.is_renew_ack
                code = self.apply((bytes(topic.topic_id), row.partition_index), batches)
                data = acknowledging.PartitionData(row.partition_index, code)
                rows.append(acknowledging.ShareAcknowledgeTopicResponse(topic.topic_id, [data]))
        return acknowledging.ShareAcknowledgeResponse(responses=rows)


def said_of(rows: list[tuple[Place, Verdicts]]) -> set[tuple[Place, int]]:
    return {(at, offset) for at, said in rows for offset, kind in said.items() if kind != Kind.RENEW}


class Drill:
    """A session and the model, under one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.broker, self.session = ModelBroker(self.chance), ShareSession("workers", "m")
        self.given: set[tuple[Place, int]] = set()
        self.lost: set[tuple[Place, int]] = set()
        self.done: set[tuple[Place, int]] = set()
        self.refused: set[tuple[Place, int]] = set()
        self.lost_renewals: set[tuple[Place, int]] = set()
        self.refused_renewals: set[tuple[Place, int]] = set()
        self.wanted: dict[Place, None] = {A: None, B: None}

    def settle(self, settled: Settled) -> None:
        for at, said in settled.done:
            self.done.update(said_of([(at, said)]))
        for at, said, _ in settled.refused:
            self.refused.update(said_of([(at, said)]))
            self.refused_renewals.update((at, offset) for offset, kind in said.items() if kind == Kind.RENEW)

    def request(self) -> None:
        session, broker, chance = self.session, self.broker, self.chance
        if session.epoch and session.has_renewals and chance.random() < 0.5:
            self.settle(session.acknowledged(broker.acknowledge(session.renewal())))
        elif session.epoch and (session.must_acknowledge(self.wanted) or chance.random() < 0.4):
            self.settle(session.acknowledged(broker.acknowledge(session.acknowledgement())))
        else:
            self.settle(session.fetched(broker.fetch(session.fetch(self.wanted, SIZE))))
            if session.epoch:
                assert broker.partitions == set(self.wanted)

    def judge(self, offset: int) -> None:
        """Lock a record; renew it, or give a verdict; its lock may have run out before that arrives."""
        at = A if self.chance.random() < 0.6 else B
        is_lost = self.chance.random() < 0.1
        if not is_lost:
            self.broker.locked[at].add(offset)
        if self.chance.random() < 0.3:
            self.session.acknowledge(at, offset, Kind.RENEW)
            if is_lost:
                self.lost_renewals.add((at, offset))
            return
        kind = self.chance.choice((Kind.ACCEPT, Kind.RELEASE, Kind.REJECT, Kind.GAP))
        self.session.acknowledge(at, offset, kind)
        self.given.add((at, offset))
        if is_lost:
            self.lost.add((at, offset))


@pytest.mark.parametrize("seed", range(200))
def test_every_verdict_is_applied_or_refused_once(seed: int) -> None:
    drill = Drill(seed)
    for offset in range(120):
        drill.judge(offset)
        if drill.chance.random() < 0.05:
            drill.wanted = {A: None} if B in drill.wanted else {A: None, B: None}
        if drill.chance.random() < 0.5:
            drill.request()
    for _ in range(1000):
        if not (drill.session.has_verdicts or drill.session.is_answer_due or drill.session.has_renewals):
            break
        drill.request()

    assert drill.done | drill.refused == drill.given
    assert drill.done.isdisjoint(drill.refused)
    assert drill.refused == drill.lost
    assert drill.refused_renewals == drill.lost_renewals
    assert set(drill.broker.applied) == drill.done


def test_a_session_begins_with_all_partitions_and_then_names_what_changed() -> None:
    session = ShareSession("workers", "m")
    first = session.fetch({A: None}, SIZE)
    session.fetched(fetching.ShareFetchResponse())
    second = session.fetch({A: None}, SIZE)
    session.fetched(fetching.ShareFetchResponse())
    third = session.fetch({B: None}, SIZE)

    assert [one.share_session_epoch for one in (first, second, third)] == [0, 1, 2]
    assert [len(one.topics) for one in (first, second, third)] == [1, 0, 1]
    assert [one.topic_id for one in third.forgotten_topics_data] == [A[0]]


def test_a_lost_connection_gives_back_what_was_not_answered() -> None:
    session = ShareSession("workers", "m")
    session.fetch({A: None}, SIZE)
    session.fetched(fetching.ShareFetchResponse())
    session.acknowledge(A, 1, Kind.ACCEPT)
    session.fetch({A: None}, SIZE)
    session.acknowledge(A, 2, Kind.REJECT)
    assert said_of(session.lost()) == {(A, 1), (A, 2)}
    assert (session.epoch, session.has_verdicts, session.is_answer_due) == (0, False, False)


def test_a_final_request_carries_every_verdict() -> None:
    session = ShareSession("workers", "m")
    session.fetch({A: None}, SIZE)
    session.fetched(fetching.ShareFetchResponse())
    for offset in (1, 2, 4):
        session.acknowledge(A, offset, Kind.ACCEPT)
    final = session.final()
    (topic,) = final.topics
    batches = topic.partitions[0].acknowledgement_batches
    assert final.share_session_epoch == -1
    assert [(one.first_offset, one.last_offset, one.acknowledge_types) for one in batches] == [(1, 2, [1]), (4, 4, [1])]


def test_a_member_joins_keeps_its_assignment_and_joins_again_when_fenced() -> None:
    member = ShareMember("workers", "m", ["jobs"])
    assert (member.heartbeat().member_epoch, member.heartbeat().subscribed_topic_names) == (0, ["jobs"])
    assignment = Assignment([TopicPartitions(A[0], [1, 0])])
    assert member.answered(
        ShareGroupHeartbeatResponse(member_epoch=3, heartbeat_interval_ms=200, assignment=assignment)
    )
    assert (member.assignment, member.interval_ms) == ({A[0]: [0, 1]}, 200)
    assert not member.answered(ShareGroupHeartbeatResponse(member_epoch=3, assignment=None))
    assert (member.heartbeat().member_epoch, member.heartbeat().subscribed_topic_names) == (3, None)
    assert member.answered(ShareGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert (member.assignment, member.heartbeat().member_epoch, member.heartbeat().member_id) == ({}, 0, "m")
    assert member.leave().member_epoch == -1


def test_a_group_that_refuses_a_member_says_why() -> None:
    member = ShareMember("workers", "m", ["jobs"])
    with pytest.raises(QanatError, match="share group workers: a consumer group has this name"):
        member.answered(ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))


def test_member_ids_are_uuids_as_kafka_writes_them() -> None:
    names = {new_member_id() for _ in range(300)}
    assert {len(name) for name in names} == {22}
    assert not any(name.startswith("-") for name in names)
    assert len(names) == 300
