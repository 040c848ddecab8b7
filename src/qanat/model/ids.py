"""Types for numbers, so that an offset is no epoch.

`NO_...` constants are the protocol's values for "none".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, NewType
from uuid import UUID

from msgspec import Struct

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
Sequence = NewType("Sequence", int)

NO_OFFSET = Offset(-1)
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = Sequence(-1)

KEPT_OFFSET = "qanat.offset.retention=forever"
"""The metadata of a committed offset that does not expire. Other brokers store it as an ordinary note."""


class TopicPartition(NamedTuple):
    """A partition by name; printed the way Kafka names its directory.

    A tuple, because it is hashed and compared on every path.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicId(Struct, frozen=True):
    """A topic's identity: unlike its name, never used twice."""

    value: UUID

    def __str__(self) -> str:
        """Kafka's spelling: URL-safe base64 without padding."""
        from base64 import urlsafe_b64encode

        return urlsafe_b64encode(self.value.bytes).decode().rstrip("=")

    @staticmethod
    def of(raw: bytes) -> TopicId:
        """An id as it is on the wire: 16 bytes."""
        return TopicId(UUID(bytes=raw))

    @staticmethod
    @lru_cache(maxsize=1 << 14)  # Requested again and again for the same topics.
    def parse(text: str) -> TopicId:
        from base64 import urlsafe_b64decode

        return TopicId(UUID(bytes=urlsafe_b64decode(text + "==")))
