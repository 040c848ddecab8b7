"""ShareFetch and ShareAcknowledge (KIP-932): sessions, deliveries, acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qanat.wire.kafka.messages import share_acknowledge as acknowledging
from qanat.wire.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import batch, conversation, fill, make_group, make_topic, topic_id

FETCH, ACKNOWLEDGE, BEAT = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_GROUP_HEARTBEAT
M1, M2, UNKNOWN_MEMBER, WARM = (letter * 21 + "A" for letter in "MNSW")
"""Members must be named by ids of 128 bits, in base64."""
GAP, ACCEPT, RELEASE, REJECT = range(4)
UNKNOWN_TOPIC_ID = b"\x07" * 16

Said = tuple[int, int, list[int]]


class Member:
    """A member of a share group, in a session of its own."""

    def __init__(self, play: Play, group: str, name: str) -> None:
        self._play, self._group, self.name = play, group, name
        self.epoch = 0

    def fetch(
        self,
        note: str,
        *rows: tuple[bytes, int, Sequence[Said]],
        epoch: int | None = None,
        forgotten: Sequence[tuple[bytes, int]] = (),
        **fields: Any,
    ) -> Any:
        request = ShareFetchRequest(
            self._group,
            self.name,
            self.epoch if epoch is None else epoch,
            topics=[
                FetchTopic(topic, [FetchPartition(number, [AcknowledgementBatch(*one) for one in said])])
                for topic, number, said in rows
            ],
            forgotten_topics_data=[ForgottenTopic(topic, [number]) for topic, number in forgotten],
            **{"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields},
        )
        answer = self._play.exchange(FETCH, 1, request, note)
        self.epoch += epoch is None and not answer.error_code
        return answer

    def acknowledge(
        self, note: str, *rows: tuple[bytes, int, Sequence[Said]], epoch: int | None = None, group: str | None = None
    ) -> Any:
        request = acknowledging.ShareAcknowledgeRequest(
            self._group if group is None else group,
            self.name,
            self.epoch if epoch is None else epoch,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic,
                    [
                        acknowledging.AcknowledgePartition(
                            number, [acknowledging.AcknowledgementBatch(*one) for one in said]
                        )
                    ],
                )
                for topic, number, said in rows
            ],
        )
        answer = self._play.exchange(ACKNOWLEDGE, 1, request, note)
        self.epoch += epoch is None and not answer.error_code
        return answer


def _prepare(play: Play, group: str, topic: str) -> None:
    """Kafka delivers no record of a partition before a member of the group was assigned to it."""
    epoch = play.quietly(BEAT, 1, ShareGroupHeartbeatRequest(group, WARM, 0, None, [topic])).member_epoch

    def is_assigned() -> bool:
        nonlocal epoch
        answer = play.quietly(BEAT, 1, ShareGroupHeartbeatRequest(group, WARM, epoch, None, [topic]))
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    play.until(is_assigned)
    play.quietly(BEAT, 1, ShareGroupHeartbeatRequest(group, WARM, -1))


def begin(play: Play, partitions: int = 1, suffix: str = "t") -> tuple[str, str, bytes]:
    """A group that has begun at the end of an empty topic."""
    topic = make_topic(play, suffix, partitions)
    group = make_group(play)
    identity = topic_id(play, topic)
    _prepare(play, group, topic)
    rows = [FetchTopic(identity, [FetchPartition(number) for number in range(partitions)])]

    def is_ready() -> bool:
        request = ShareFetchRequest(group, WARM, 0, 300, 1, max_records=1, batch_size=1, topics=rows)
        answer = play.quietly(FETCH, 1, request, on="warm")
        return not answer.error_code and not any(
            row.error_code for topic in answer.responses for row in topic.partitions
        )

    play.until(is_ready)
    play.quietly(FETCH, 1, ShareFetchRequest(group, WARM, -1), on="warm")
    return topic, group, identity


@conversation
def share_fetch_and_acknowledge(play: Play) -> None:
    topic, group, identity = begin(play)
    fill(play, topic, batch(b"a", b"b", b"c"), batch(b"d", b"e"))
    member, other = Member(play, group, M1), Member(play, group, M2)
    member.fetch("everything", (identity, 0, []))
    other.fetch("nothing is left", (identity, 0, []), max_wait_ms=0)
    member.acknowledge("each its own", (identity, 0, [(0, 2, [ACCEPT, RELEASE, REJECT]), (3, 4, [ACCEPT])]))
    other.fetch("what was released", max_wait_ms=500)
    member.acknowledge("what another holds", (identity, 0, [(1, 1, [ACCEPT])]))
    member.acknowledge("what is done", (identity, 0, [(0, 0, [ACCEPT])]))
    member.acknowledge("what never was", (identity, 0, [(90, 91, [ACCEPT])]))
    other.fetch("said while fetching", (identity, 0, [(1, 1, [ACCEPT])]), max_wait_ms=0)
    other.fetch("said wrongly while fetching", (identity, 0, [(1, 1, [ACCEPT])]), max_wait_ms=0)
    fill(play, topic, batch(b"f", b"g"))
    other.fetch("more", max_wait_ms=500)
    other.acknowledge("a good-bye with a word", (identity, 0, [(5, 5, [ACCEPT])]), epoch=-1)
    other.acknowledge("after the good-bye", epoch=-1)
    member.fetch("what the other left", max_wait_ms=4_000)
    member.fetch("a good-bye", (identity, 0, [(6, 6, [ACCEPT])]), epoch=-1)
    member.fetch("after it", epoch=-1)


@conversation
def share_acknowledgements_that_are_wrong(play: Play) -> None:
    topic, group, identity = begin(play)
    fill(play, topic, batch(b"a", b"b", b"c", b"d"))
    member = Member(play, group, M1)
    member.fetch("begins", (identity, 0, []))
    wrong: dict[str, list[Said]] = {
        "the last before the first": [(2, 1, [ACCEPT])],
        "no types": [(0, 1, [])],
        "too few types": [(0, 3, [ACCEPT, ACCEPT])],
        "no such type": [(0, 0, [9])],
        "a negative type": [(0, 0, [-1])],
        "overlapping": [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
        "out of order": [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])],
        "partly beyond the end": [(3, 9, [ACCEPT])],
    }
    for note, said in wrong.items():
        member.acknowledge(note, (identity, 0, said))
        member.fetch(f"{note}, while fetching", (identity, 0, said), max_wait_ms=0)
    member.acknowledge("an unknown topic", (UNKNOWN_TOPIC_ID, 0, [(0, 0, [ACCEPT])]))
    member.acknowledge("an unknown partition", (identity, 7, [(0, 0, [ACCEPT])]))
    member.acknowledge("nothing at all")
    member.acknowledge("a partition and nothing of it", (identity, 0, []))
    member.acknowledge("renewed in a version without that", (identity, 0, [(0, 0, [4])]))
    member.acknowledge("all is still held", (identity, 0, [(0, 3, [ACCEPT])]))


@conversation
def share_sessions(play: Play) -> None:
    topic, group, identity = begin(play, partitions=2)
    fill(play, topic, batch(b"a"), partition=0)
    member, unknown = Member(play, group, M1), Member(play, group, UNKNOWN_MEMBER)
    unknown.fetch("an epoch without a session", (identity, 0, []), epoch=3)
    unknown.acknowledge("an epoch without a session", (identity, 0, [(0, 0, [ACCEPT])]), epoch=3)
    unknown.acknowledge("an acknowledgement begins no session", (identity, 0, [(0, 0, [ACCEPT])]), epoch=0)
    unknown.fetch("the end of no session", epoch=-1)
    unknown.fetch("says something at once", (identity, 0, [(0, 0, [ACCEPT])]), epoch=0)
    member.fetch("begins with one partition", (identity, 0, []))
    fill(play, topic, batch(b"b"), partition=1)
    member.fetch("nothing of the other", max_wait_ms=0)
    member.fetch("the other as well", (identity, 1, []))
    member.fetch("a wrong epoch", epoch=9)
    member.acknowledge("a wrong epoch", (identity, 0, [(0, 0, [ACCEPT])]), epoch=9)
    member.fetch("an unknown partition", (identity, 9, []), max_wait_ms=0)
    member.fetch("is named again", max_wait_ms=0)
    member.fetch("and forgotten", forgotten=[(identity, 9)], max_wait_ms=0)
    fill(play, topic, batch(b"c"), partition=1)
    member.fetch("one is forgotten", forgotten=[(identity, 1)], max_wait_ms=0)
    member.fetch("begins again", (identity, 1, []), epoch=0)
    member.acknowledge("holds what it held", (identity, 0, [(0, 0, [ACCEPT])]), epoch=1)


@conversation
def share_fetch_within_limits(play: Play) -> None:
    topic, group, identity = begin(play)
    fill(play, topic, *[batch(*[b"v%d" % number] * 3) for number in range(6)])
    member = Member(play, group, M1)
    member.fetch("few records are whole batches", (identity, 0, []), max_records=4, batch_size=100)
    member.fetch("small ranges", max_records=6, batch_size=1)
    member.fetch("one batch is enough", max_records=1, batch_size=1)
    member.fetch("nothing is wanted", max_records=0, max_wait_ms=0)
    member.fetch("the rest", max_records=100, batch_size=2)
    member.acknowledge("some come back", (identity, 0, [(1, 1, [RELEASE]), (4, 9, [RELEASE])]))
    member.fetch("again", max_records=100, batch_size=100)


@conversation
def share_group_that_is_odd(play: Play) -> None:
    _, group, identity = begin(play)
    groupless, nameless = Member(play, "", M1), Member(play, group, "")
    groupless.fetch("no group", (identity, 0, []), max_wait_ms=0, epoch=0)
    nameless.fetch("no member", (identity, 0, []), max_wait_ms=0, epoch=0)
    nameless.acknowledge("no member", (identity, 0, [(0, 0, [ACCEPT])]), epoch=1)
    Member(play, group, M1).fetch("an unknown topic", (UNKNOWN_TOPIC_ID, 0, []), max_wait_ms=0)


@conversation
def share_versions_of_a_later_kafka(play: Play) -> None:
    """Version 2 came with Kafka 4.2: the recording says only that 4.1 does not serve it."""
    topic, group, identity = begin(play)
    fill(play, topic, batch(b"a", b"b", b"c"))
    rows = [FetchTopic(identity, [FetchPartition(0)])]
    limited = ShareFetchRequest(group, M1, 0, 500, 1, 1_000_000, 2, 2, 1, False, rows)
    play.exchange(FETCH, 2, limited, "exactly two records", on="b")
    renewed = acknowledging.AcknowledgePartition(0, [acknowledging.AcknowledgementBatch(0, 1, [4])])
    topics = [acknowledging.AcknowledgeTopic(identity, [renewed])]
    play.exchange(ACKNOWLEDGE, 2, acknowledging.ShareAcknowledgeRequest(group, M1, 1, True, topics), "renewed", on="b")
