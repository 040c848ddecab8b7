"""Every fault under one root, each with the code that a server must answer.

Names say the cause. The message is one sentence for a person: what was wrong,
where, and what to do. Bugs are assertions, not members of this tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from qanat.model.error_codes import ErrorCode


class QanatError(Exception):
    """Root of all faults; `code` is the Kafka error that a door answers with."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class CorruptBatchError(QanatError):
    """Bytes that are no valid record batch: a checksum or a length does not hold."""

    code = ErrorCode.CORRUPT_MESSAGE


class MalformedMessageError(QanatError):
    """Bytes that are no valid message of the protocol: a length lies, or something is missing or left over."""

    code = ErrorCode.INVALID_REQUEST


class SlowSenderError(QanatError):
    """A request comes so slowly that others wait for the memory which it holds."""

    code = ErrorCode.REQUEST_TIMED_OUT


class TooManyElementsError(MalformedMessageError):
    """A message that may be valid, but would take more work to read than was allowed for it."""


class RecordFault(NamedTuple):
    """A record that a batch is refused for."""

    batch_index: int
    message: str


class InvalidRecordError(QanatError):
    """A well-formed batch with a content that is refused."""

    code = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, records: Sequence[RecordFault] = ()) -> None:
        super().__init__(message)
        self.records = tuple(records)
        """Those at fault; none where it is the batch as a whole, or where they are not known."""


class InvalidTimestampError(InvalidRecordError):
    """A record's timestamp lies further from the broker's clock than the topic allows."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedCompressionError(QanatError):
    """A batch names a compression codec that does not exist."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class BatchTooLargeError(QanatError):
    """A batch is larger than the topic allows, as sent or while being inflated."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class InflatesTooFarError(BatchTooLargeError):
    """A batch inflates to more than whoever opens it allows."""


class BatchExceedsSegmentError(BatchTooLargeError):
    """A batch is larger than a whole segment may be."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(QanatError):
    """The offset asked for is before the log's start or after its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetNotAvailableError(QanatError):
    """How far consumers may read is not known yet; it is in a moment."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class NodeIdInUseError(QanatError):
    """Another broker of the cluster has the number that this one wants."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class NotLeaderError(QanatError):
    """What only a partition's leader may do was asked of somebody who is not, or not any more."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class NotTakenOverError(QanatError):
    """A staged file that cannot become part of a log as it is: its batches have to be sent."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class OutOfOrderSequenceError(QanatError):
    """An idempotent producer left a gap in its sequence numbers."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(QanatError):
    """A producer wrote with an epoch older than the one in force: it was fenced."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionStateError(QanatError):
    """A producer's act does not fit the state of its transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFencedError(QanatError):
    """A marker came from a transaction coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class StorageError(QanatError):
    """The disk failed us; the message says where."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFullError(StorageError):
    """There is no room left on the device."""


class ReadOnlyError(StorageError):
    """The directory or its file system cannot be written."""


class DirectoryLockedError(StorageError):
    """Another process owns the data directory."""


class DirectoryFailedError(StorageError):
    """An earlier fsync or write failed; nothing more is accepted in this directory."""


class PartitionDeletedError(StorageError):
    """The partition was removed while somebody still wanted something of it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownStorageEngineError(StorageError):
    """No storage engine of that name is installed."""


class UnreadableSegmentError(StorageError):
    """A segment cannot be opened as it is: missing key, or a format from a later version."""


class CorruptLogError(StorageError):
    """Damage inside a log that is not a torn tail: it must be repaired, never cut away."""


class InvalidSettingError(QanatError):
    """A setting is unknown, or has a value that it cannot take."""

    code = ErrorCode.INVALID_CONFIG


class StoreUnavailableError(QanatError):
    """The metadata store did not answer, or cannot be used as it is; whether a commit took effect may be unknown."""

    code = ErrorCode.REQUEST_TIMED_OUT


class LeaseExpiredError(QanatError):
    """A lease in the metadata store has run out or was revoked; the keys attached to it are gone."""

    code = ErrorCode.STALE_BROKER_EPOCH


class AddressInUseError(QanatError):
    """A listener's address cannot be had."""
