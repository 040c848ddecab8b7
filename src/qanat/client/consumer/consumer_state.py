"""What both consumers say and do without waiting: positions, pauses, lag, health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qanat.client.consumer.group_metadata import ConsumerGroupMetadata, ConsumerHealth
from qanat.client.consumer.offset_claim import OffsetClaim
from qanat.client.consumer.reading import Reading
from qanat.client.errors import ClosedError
from qanat.model.ids import TopicPartition


class ConsumerState:
    """The part of a consumer that is the same with asyncio and with threads."""

    _reading: Reading | None
    """None before the start and after the end."""
    _is_closed: bool
    _topics: Sequence[str]

    def subscription(self) -> Sequence[str]:
        """The topics."""
        return self._topics

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to hand out; -1 until it is known."""
        self._started().core.partition(partition)
        return self._started().buffer.position(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`; they stay assigned."""
        self._started().pause(partitions, is_paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out their records again."""
        self._started().pause(partitions, is_paused=False)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        return frozenset(() if self._reading is None else self._reading.buffer.partitions)

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records between the position and the end of each partition; -1 until it is known."""
        return self._started().lag

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transaction needs to commit offsets of this consumer."""
        return self._started().group_metadata

    def claim(self, offsets: Mapping[TopicPartition, int]) -> OffsetClaim:
        """These offsets for a transaction, which may hold them until it commits them: `commit_offsets(claim, offsets)`.

        It ends where a partition goes to another member. Raises `TransactionError` where one has gone already.
        """
        return OffsetClaim(self._started().core, offsets)

    @property
    def health(self) -> ConsumerHealth:
        """Whether it is joined, and whether its user is late."""
        return self._started().health

    def _started(self) -> Reading:
        if self._reading is None:
            raise ClosedError("this consumer is closed" if self._is_closed else "this consumer was not started")
        return self._reading
