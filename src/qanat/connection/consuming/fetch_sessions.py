"""Incremental fetch sessions (KIP-227): a broker remembers what is fetched, requests name only what changed.

One session per broker. The first request is full and gets an id; each later one names partitions that are new,
changed or forgotten. `client.consumer` sends the requests.

Rule 1: after any failure the next request is full: what the broker remembers is unknown.
Rule 2: a topic is named by its id where every topic has one, otherwise by its name; a change of that begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_FULL_EPOCH = 0
_CLOSING_EPOCH = -1
_EPOCH_MAX = 2**31 - 1
_OVER = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
BY_NAME_AT_MOST = 12
"""The last version of Fetch that names topics."""


class Wanted(NamedTuple):
    """What is fetched of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchTerms(msgspec.Struct, frozen=True):
    """How long the broker may wait, and how much it may send."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 * 1024 * 1024
    is_committed_only: bool = False
    rack_id: str = ""


class FetchSession:
    """One broker's session."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = _FULL_EPOCH
        self._sent: dict[TopicPartition, Wanted] = {}
        self._names: dict[bytes, str] = {}
        self._is_by_id = True

    @property
    def is_incremental(self) -> bool:
        return self._id != 0

    def request(self, wanted: Mapping[TopicPartition, Wanted], terms: FetchTerms, *, can_use_ids: bool) -> FetchRequest:
        """The next request. `can_use_ids`: whether the broker speaks version 13; see `uses_ids` for the outcome."""
        is_by_id = can_use_ids and all(one.topic_id != ZERO_UUID for one in wanted.values())
        if is_by_id != self._is_by_id or self._has_new_ids(wanted):
            self.reset()
            self._is_by_id = is_by_id
        changed = [at for at, one in wanted.items() if self._sent.get(at) != one]
        forgotten = [at for at in self._sent if at not in wanted]
        gone = {at: self._sent[at] for at in forgotten}
        self._sent = dict(wanted)
        self._names = {one.topic_id: at.topic for at, one in wanted.items()}
        return FetchRequest(
            max_wait_ms=terms.max_wait_ms,
            min_bytes=terms.min_bytes,
            max_bytes=terms.max_bytes,
            isolation_level=int(terms.is_committed_only),
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(changed, wanted),
            forgotten_topics_data=_forgotten(gone),
            rack_id=terms.rack_id,
        )

    @property
    def uses_ids(self) -> bool:
        return self._is_by_id

    def _has_new_ids(self, wanted: Mapping[TopicPartition, Wanted]) -> bool:
        """A topic was deleted and made anew under its name."""
        return any(at in self._sent and self._sent[at].topic_id != one.topic_id for at, one in wanted.items())

    def name_of(self, topic: str, topic_id: bytes) -> str | None:
        """The name of a topic in an answer; None where it is none of ours."""
        return self._names.get(topic_id) if self._is_by_id else topic

    def answered(self, error_code: int, session_id: int) -> bool:
        """Take the head of an answer; False where the session is over, and the same must be requested anew."""
        if error_code in _OVER:
            self.reset()
            return False
        if error_code != ErrorCode.NONE or session_id == 0:
            self.reset()
            return error_code == ErrorCode.NONE
        self._id = session_id
        self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return True

    def reset(self) -> None:
        """Begin anew: after a failure, or on a new connection."""
        self._id = 0
        self._epoch = _FULL_EPOCH
        self._sent = {}

    def close_request(self) -> FetchRequest | None:
        """A request that ends the session; None where there is none."""
        if not self.is_incremental:
            return None
        return FetchRequest(session_id=self._id, session_epoch=_CLOSING_EPOCH, max_bytes=1)


def _topics(changed: list[TopicPartition], wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for at in changed:
        one = wanted[at]
        topic = topics.setdefault(at.topic, FetchTopic(at.topic, one.topic_id, []))
        topic.partitions.append(
            FetchPartition(
                at.partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                partition_max_bytes=one.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for at, one in gone.items():
        topics.setdefault(at.topic, ForgottenTopic(at.topic, one.topic_id, [])).partitions.append(at.partition)
    return list(topics.values())
