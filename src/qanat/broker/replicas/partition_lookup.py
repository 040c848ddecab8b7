"""Partition look-ups for clients: a partition on this broker by name or id, or the error that says why not."""

from __future__ import annotations

import uuid

from qanat.broker.replicas.follower_fetching import FollowerFetching, FollowerReader
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.partition import Partition
from qanat.cluster.image import MetadataImage
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId, TopicPartition
from qanat.model.topic_names import is_for_brokers


class PartitionLookup:
    """Finds partitions by topic name or topic id."""

    def __init__(
        self, local_replicas: LocalReplicas, image: MetadataImage, follower_fetching: FollowerFetching
    ) -> None:
        self._local_replicas = local_replicas
        self._image = image
        self._follower_fetching = follower_fetching

    def led(self, topic: str, number: int) -> Partition | ErrorCode:
        """A partition that we lead, or why not."""
        at = TopicPartition(topic, number)
        found = self._local_replicas.partitions.get(at)
        return self._local_replicas.why_missing(at) if found is None else found

    def led_by_id(self, topic_id: bytes, number: int) -> Partition | ErrorCode:
        """The same by the topic's id; a topic that is deleted has none, also while we still lead its partitions.

        Authorization relies on that: it allows unknown ids.
        """
        found = self._local_replicas.by_id.get((topic_id, number))
        if found is not None:
            topic = self._image.topics.get(found.topic)
            if topic is not None and topic.identity.value.bytes == topic_id:
                return found
        known = self._image.topics_by_id.get(TopicId(uuid.UUID(bytes=topic_id)))
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self._local_replicas.why_missing(TopicPartition(known.name, number))

    def writable(self, topic: str, number: int) -> Partition | ErrorCode:
        """A partition that we lead and clients may write to: brokers alone write to internal topics."""
        found = self._local_replicas.writable.get((topic, number))
        if found is not None:
            return found
        known = self._image.topics.get(topic)
        if is_for_brokers(topic, known is not None and known.is_internal):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        led = self.led(topic, number)
        return ErrorCode.POLICY_VIOLATION if isinstance(led, Partition) and led.is_mirror else led

    def readable_follower(self, topic: str, topic_id: bytes, number: int) -> FollowerReader | None:
        """Our replica of a partition that another broker leads, for consumers to read; by `topic`, or by id where that
        is empty."""
        if not topic:
            known = self._image.topics_by_id.get(TopicId(uuid.UUID(bytes=topic_id)))
            topic = "" if known is None else known.name
        return self._follower_fetching.reader_of(TopicPartition(topic, number))
