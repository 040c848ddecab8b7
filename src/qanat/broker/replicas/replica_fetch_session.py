"""The fetch session of a replica fetcher (KIP-227): it names only replicas that moved since the last request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.model.ids import Offset, TopicPartition
from qanat.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)


class ReplicaFetchSession:
    """A fetch session on the client's side: what it last requested of the leader."""

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = 0
        self._requested: dict[tuple[bytes, int], FetchPartition] = {}

    def request(
        self, replicas: Mapping[TopicPartition, FollowerReplica], max_bytes: Callable[[TopicPartition], int]
    ) -> FetchRequest:
        """The next request: these replicas, each with at most as many bytes as `max_bytes` says."""
        wanted = {
            (replica.topic_id, replica.at.partition): _partition_request(replica, max_bytes(replica.at))
            for replica in replicas.values()
        }
        changed = {key: one for key, one in wanted.items() if not _is_same(self._requested.get(key), one)}
        forgotten = [key for key in self._requested if key not in wanted]
        self._requested = wanted
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, _), request in changed.items():
            topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(request)
        gone: dict[bytes, ForgottenTopic] = {}
        for topic_id, number in forgotten if self._session_id else ():
            gone.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(number)
        return FetchRequest(
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    def note_response(self, response: FetchResponse) -> bool:
        """Note the response; False where it is an error, and everything must be requested again."""
        if response.error_code:
            self._session_id, self._epoch, self._requested = 0, 0, {}
            return False
        self._session_id = response.session_id
        self._epoch = self._epoch + 1 if response.session_id else 0
        if not response.session_id:
            self._requested = {}
        return True


def _is_same(before: FetchPartition | None, now: FetchPartition) -> bool:
    return before is not None and (
        before.fetch_offset == now.fetch_offset
        and before.current_leader_epoch == now.current_leader_epoch
        and before.last_fetched_epoch == now.last_fetched_epoch
        and before.log_start_offset == now.log_start_offset
    )


def _partition_request(replica: FollowerReplica, max_bytes: int) -> FetchPartition:
    log = replica.log
    end_offset = log.end_offset
    last = log.epochs.epoch_at(Offset(end_offset - 1)) if end_offset > log.log_start_offset else -1
    return FetchPartition(
        partition=replica.at.partition,
        current_leader_epoch=replica.leader_epoch,
        fetch_offset=end_offset,
        last_fetched_epoch=last,
        log_start_offset=log.log_start_offset,
        partition_max_bytes=max_bytes,
    )
