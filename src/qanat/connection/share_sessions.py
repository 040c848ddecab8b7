"""The share session of a member with one broker: numbered requests with acknowledgements on them (KIP-932). Pure.

A session begins with a ShareFetch of epoch 0 that names every partition; later requests name what changed. Requests of
a session follow each other: the next one is made after the answer to the last. Acknowledgements travel with the next
fetch, or alone where nothing is to be fetched. Renewals (KIP-1222) travel alone: a fetch with a renewal brings nothing.

Rule 1: a broker applies the acknowledgements of a partition together or not at all. Where it refuses several, they are
        sent again in halves, so that one late verdict does not cost the others.
Rule 2: a session that the broker forgot is begun again; the locks stay, and what was not answered is sent again.
Rule 3: a request of epoch 0 carries no acknowledgements: brokers refuse that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum

import msgspec

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages import share_acknowledge as acknowledging
from qanat.wire.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

Place = tuple[bytes, int]
"""A topic's id and a partition."""
Verdicts = dict[int, int]
"""Kinds of acknowledgement by offset; renewals are never together with others."""

FIRST_EPOCH, FINAL_EPOCH = 0, -1
_LAST_EPOCH = 2**31 - 1
SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
_AGAIN = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
)
"""The broker could not store the acknowledgements now."""


class Kind(IntEnum):
    """Kinds of acknowledgement."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class FetchSize(msgspec.Struct, frozen=True):
    """How much a fetch may bring, and how long the broker may wait for it."""

    max_wait_ms: int = 500
    max_bytes: int = 16 * 1024 * 1024
    max_records: int = 500


class Settled(msgspec.Struct):
    """What an answer says about acknowledgements."""

    done: list[tuple[Place, Verdicts]] = msgspec.field(default_factory=list)
    refused: list[tuple[Place, Verdicts, int]] = msgspec.field(default_factory=list)
    """With the broker's error code: the locks are lost."""


class ShareSession:
    """Requests of one member to one broker."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self._member_id = member_id
        self.epoch = FIRST_EPOCH
        self._known: dict[Place, None] = {}
        """Partitions of the session, as the broker knows them."""
        self._waiting: dict[Place, Verdicts] = {}
        self._renewals: dict[Place, Verdicts] = {}
        self._alone: deque[tuple[Place, Verdicts]] = deque()
        """Parts of what was refused together."""
        self._sent: dict[Place, Verdicts] = {}

    # Acknowledgements

    def acknowledge(self, at: Place, offset: int, kind: int) -> None:
        """Let a verdict travel with a next request; a renewal that waits gives way to it."""
        if kind == Kind.RENEW:
            self._renewals.setdefault(at, {})[offset] = kind
            return
        self._waiting.setdefault(at, {})[offset] = kind
        if at in self._renewals:
            self._renewals[at].pop(offset, None)

    def acknowledge_all(self, at: Place, said: Verdicts) -> None:
        """The same for many records of a partition, which the caller gives away; no renewals."""
        waiting = self._waiting.setdefault(at, said)
        if waiting is not said:
            waiting.update(said)
        renewals = self._renewals.get(at)
        if renewals:
            for offset in said:
                renewals.pop(offset, None)

    def forget(self, at: Place, offsets: Iterable[int]) -> None:
        """Drop renewals of records that are no longer held."""
        for offset in offsets:
            self._renewals.get(at, {}).pop(offset, None)

    @property
    def has_verdicts(self) -> bool:
        return bool(self._waiting) or bool(self._alone)

    @property
    def is_answer_due(self) -> bool:
        """Whether verdicts were sent that the broker has not answered."""
        return any(said and not is_renewal(said) for said in self._sent.values())

    @property
    def has_renewals(self) -> bool:
        return any(self._renewals.values())

    def must_acknowledge(self, wanted: Collection[Place]) -> bool:
        """Whether verdicts wait that no fetch from the wanted partitions can carry."""
        return bool(self._alone) or any(at not in wanted for at in self._waiting)

    # Requests

    def fetch(self, wanted: Collection[Place], size: FetchSize) -> ShareFetchRequest:
        """A fetch from these partitions, with the verdicts on them."""
        verdicts: dict[Place, Verdicts] = {}
        if self.epoch != FIRST_EPOCH:
            verdicts = {at: said for at, said in self._waiting.items() if at in wanted}
            for at in verdicts:
                del self._waiting[at]
        else:
            self._known.clear()
        named = [at for at in wanted if at not in self._known]
        gone = [at for at in self._known if at not in wanted]
        self._known = dict.fromkeys(wanted)
        self._sent = verdicts
        rows: dict[bytes, list[FetchPartition]] = {}
        for topic_id, partition in dict.fromkeys([*named, *verdicts]):
            batches = [AcknowledgementBatch(*one) for one in runs(verdicts.get((topic_id, partition), {}))]
            rows.setdefault(topic_id, []).append(FetchPartition(partition, batches))
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, partition in gone:
            forgotten.setdefault(topic_id, []).append(partition)
        return ShareFetchRequest(
            self._group,
            self._member_id,
            self.epoch,
            size.max_wait_ms,
            1,
            size.max_bytes,
            size.max_records,
            size.max_records,
            topics=[FetchTopic(*one) for one in rows.items()],
            forgotten_topics_data=[ForgottenTopic(*one) for one in forgotten.items()],
        )

    def acknowledgement(self) -> acknowledging.ShareAcknowledgeRequest:
        """Verdicts alone; the parts of refused ones one by one."""
        verdicts, self._waiting = self._waiting, {}
        if self._alone:
            at, part = self._alone.popleft()
            if at in verdicts:
                self._waiting[at] = verdicts[at]
            verdicts[at] = part
        request = self._acknowledge(verdicts)
        request.is_renew_ack = any(is_renewal(said) for said in verdicts.values())
        return request

    def renewal(self) -> acknowledging.ShareAcknowledgeRequest:
        """Renewals of locks."""
        renewals, self._renewals = self._renewals, {}
        request = self._acknowledge({at: said for at, said in renewals.items() if said})
        request.is_renew_ack = True
        return request

    def final(self) -> acknowledging.ShareAcknowledgeRequest:
        """The last request: all verdicts; the broker releases what is still locked."""
        verdicts, self._waiting = self._waiting, {}
        for at, part in self._alone:
            if not is_renewal(part):
                verdicts[at] = {**part, **verdicts.get(at, {})}
        self._alone.clear()
        request = self._acknowledge(verdicts)
        request.share_session_epoch = FINAL_EPOCH
        return request

    def _acknowledge(self, verdicts: dict[Place, Verdicts]) -> acknowledging.ShareAcknowledgeRequest:
        assert self.epoch != FIRST_EPOCH, "a session begins with a fetch"
        self._sent = verdicts
        topics: dict[bytes, list[acknowledging.AcknowledgePartition]] = {}
        for (topic_id, partition), said in verdicts.items():
            batches = [acknowledging.AcknowledgementBatch(*one) for one in runs(said)]
            topics.setdefault(topic_id, []).append(acknowledging.AcknowledgePartition(partition, batches))
        return acknowledging.ShareAcknowledgeRequest(
            self._group,
            self._member_id,
            self.epoch,
            topics=[acknowledging.AcknowledgeTopic(*one) for one in topics.items()],
        )

    # Answers

    def fetched(self, response: ShareFetchResponse) -> Settled:
        """Take the answer to a fetch; its records are the caller's."""
        codes = {at: row.acknowledge_error_code for at, row in fetched_rows(response)}
        return self._answered(response.error_code, codes)

    def acknowledged(self, response: acknowledging.ShareAcknowledgeResponse) -> Settled:
        """Take the answer to verdicts or renewals."""
        codes = {
            (bytes(topic.topic_id), row.partition_index): row.error_code
            for topic in response.responses
            for row in topic.partitions
        }
        return self._answered(response.error_code, codes)

    def _answered(self, error_code: int, codes: dict[Place, int]) -> Settled:
        if error_code in SESSION_LOST:
            self.begin_again()
            return Settled()
        if error_code:
            return Settled()  # The caller raises; `lost` or `begin_again` follows.
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        sent, self._sent = self._sent, {}
        settled = Settled()
        for at, said in sent.items():
            code = codes.get(at, 0)
            if not code:
                settled.done.append((at, said))
            elif code in _AGAIN:
                self._wait_again(at, said)
            elif len(said) > 1 and code == ErrorCode.INVALID_RECORD_STATE:
                self._split(at, said)
            else:
                settled.refused.append((at, said, code))
        return settled

    def _split(self, at: Place, said: Verdicts) -> None:
        rows = sorted(said.items())
        middle = len(rows) // 2
        self._alone.append((at, dict(rows[:middle])))
        self._alone.append((at, dict(rows[middle:])))

    def _wait_again(self, at: Place, said: Verdicts) -> None:
        for offset, kind in said.items():
            if kind == Kind.RENEW:
                self._renewals.setdefault(at, {}).setdefault(offset, kind)
            else:
                self._waiting.setdefault(at, {}).setdefault(offset, kind)

    def begin_again(self) -> None:
        """Open the session anew; what was not answered waits again."""
        self.epoch = FIRST_EPOCH
        self._known.clear()
        sent, self._sent = self._sent, {}
        for at, said in sent.items():
            self._wait_again(at, said)

    def lost(self) -> list[tuple[Place, Verdicts]]:
        """The connection is gone, and with it all locks: begin anew; returns the unanswered verdicts."""
        self.epoch = FIRST_EPOCH
        self._known.clear()
        open_ones = [*self._sent.items(), *self._waiting.items(), *self._alone]
        self._sent, self._waiting, self._renewals = {}, {}, {}
        self._alone.clear()
        return open_ones


def is_renewal(said: Verdicts) -> bool:
    """Whether these are renewals; nothing at all is none."""
    return bool(said) and next(iter(said.values())) == Kind.RENEW


def fetched_rows(response: ShareFetchResponse) -> Iterator[tuple[Place, PartitionData]]:
    """The partitions of an answer."""
    for topic in response.responses:
        topic_id = bytes(topic.topic_id)
        for row in topic.partitions:
            yield (topic_id, row.partition_index), row


def runs(verdicts: Verdicts) -> Iterator[tuple[int, int, list[int]]]:
    """Verdicts as acknowledgement batches: neighbouring offsets of one kind are one.

    >>> list(runs({4: 1, 5: 1, 6: 2, 9: 1}))
    [(4, 5, [1]), (6, 6, [2]), (9, 9, [1])]
    """
    if not verdicts:
        return
    offsets = sorted(verdicts)
    if offsets[-1] - offsets[0] + 1 == len(offsets) and len(set(verdicts.values())) == 1:
        yield offsets[0], offsets[-1], [verdicts[offsets[0]]]  # Nearly always: one kind, without gaps.
        return
    first = last = offsets[0]
    kind = verdicts[first]
    for offset in offsets[1:]:
        if offset != last + 1 or verdicts[offset] != kind:
            yield first, last, [kind]
            first, kind = offset, verdicts[offset]
        last = offset
    yield first, last, [kind]
