"""A fetch session as a follower uses it (KIP-227): only copies that moved since the last question are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qanat.broker.replicas.local_replicas import Copy
from qanat.model.ids import Offset, TopicPartition
from qanat.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)


class ReplicaFetchSession:
    """A fetch session as its user sees it: what the leader was last asked for."""

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = 0
        self._asked: dict[tuple[bytes, int], FetchPartition] = {}

    def request(
        self, copies: Mapping[TopicPartition, Copy], max_bytes: Callable[[TopicPartition], int]
    ) -> FetchRequest:
        """What to ask for now: these copies, each with as much at once as `max_bytes` says."""
        wanted = {(copy.topic_id, copy.at.partition): _question(copy, max_bytes(copy.at)) for copy in copies.values()}
        changed = {key: one for key, one in wanted.items() if not _is_same(self._asked.get(key), one)}
        forgotten = [key for key in self._asked if key not in wanted]
        self._asked = wanted
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, _), question in changed.items():
            topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(question)
        gone: dict[bytes, ForgottenTopic] = {}
        for topic_id, number in forgotten if self._session_id else ():
            gone.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(number)
        return FetchRequest(
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    def answered(self, response: FetchResponse) -> bool:
        """Take note of the answer; False where it is none, and everything must be asked for anew."""
        if response.error_code:
            self._session_id, self._epoch, self._asked = 0, 0, {}
            return False
        self._session_id = response.session_id
        self._epoch = self._epoch + 1 if response.session_id else 0
        if not response.session_id:
            self._asked = {}
        return True


def _is_same(before: FetchPartition | None, now: FetchPartition) -> bool:
    return before is not None and (
        before.fetch_offset == now.fetch_offset
        and before.current_leader_epoch == now.current_leader_epoch
        and before.last_fetched_epoch == now.last_fetched_epoch
        and before.log_start_offset == now.log_start_offset
    )


def _question(copy: Copy, max_bytes: int) -> FetchPartition:
    log = copy.log
    end_offset = log.end_offset
    last = log.epochs.epoch_at(Offset(end_offset - 1)) if end_offset > log.log_start_offset else -1
    return FetchPartition(
        partition=copy.at.partition,
        current_leader_epoch=copy.leader_epoch,
        fetch_offset=end_offset,
        last_fetched_epoch=last,
        log_start_offset=log.log_start_offset,
        partition_max_bytes=max_bytes,
    )
