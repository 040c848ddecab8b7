"""Every fault under one root, each with the error code of its response.

Names say the cause. The message is one sentence for a person: what was wrong,
where, and what to do. Bugs are assertions, not members of this tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from qanat.model.error_codes import ErrorCode


class QanatError(Exception):
    """Root of all faults; `code` is the Kafka error code of the response."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class CorruptBatchError(QanatError):
    """Bytes that are no valid record batch: a checksum or a length does not match."""

    code = ErrorCode.CORRUPT_MESSAGE


class MalformedMessageError(QanatError):
    """Bytes that are no valid message of the protocol: a length is wrong, or something is missing or left over."""

    code = ErrorCode.INVALID_REQUEST


class SlowSenderError(QanatError):
    """A request arrives so slowly that others wait for the memory that it holds."""

    code = ErrorCode.REQUEST_TIMED_OUT


class TooManyElementsError(MalformedMessageError):
    """A message that may be valid, but would take more work to read than its budget allows."""


class RecordFault(NamedTuple):
    """A record that a batch is rejected for."""

    batch_index: int
    message: str


class InvalidRecordError(QanatError):
    """A well-formed batch with content that is rejected."""

    code = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, records: Sequence[RecordFault] = ()) -> None:
        super().__init__(message)
        self.records = tuple(records)
        """The records at fault; empty where the batch as a whole is, or where they are not known."""


class InvalidTimestampError(InvalidRecordError):
    """A record's timestamp lies further from the broker's clock than the topic allows."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedCompressionError(QanatError):
    """A batch names a compression codec that does not exist."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class BatchTooLargeError(QanatError):
    """A batch is larger than the topic allows, as sent or decompressed."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class InflatesTooFarError(BatchTooLargeError):
    """A batch decompresses to more than the reader's limit."""


class BatchExceedsSegmentError(BatchTooLargeError):
    """A batch is larger than a whole segment may be."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(QanatError):
    """The requested offset is before the log's start or after its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class MirroredTopicError(QanatError):
    """A topic that mirrors one of a parent takes records from its pipe alone."""

    code = ErrorCode.POLICY_VIOLATION


class OffsetNotAvailableError(QanatError):
    """The bound for consumers is not known yet, but will be soon."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class NodeIdInUseError(QanatError):
    """Another broker of the cluster has this broker's node id."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class NotLeaderError(QanatError):
    """A broker that is not, or no longer, the partition's leader received a request for the leader."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class NotIngestedError(QanatError):
    """A staged file that cannot be ingested unchanged: its producer sends the batches instead."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class StagingFullError(QanatError):
    """A broker holds as many staged rows as it may."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceError(QanatError):
    """An idempotent producer left a gap in its sequence numbers."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(QanatError):
    """A producer wrote with an epoch older than the current one: it was fenced."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionStateError(QanatError):
    """A producer's request does not fit the state of its transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFencedError(QanatError):
    """A marker came from a transaction coordinator that was replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class StorageError(QanatError):
    """The disk failed; the message says where."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFullError(StorageError):
    """There is no room left on the device."""


class OutboxFullError(StorageError):
    """As many bytes wait for the parent as the topic's settings allow: producers try again."""


class ReadOnlyError(StorageError):
    """The directory or its file system cannot be written."""


class DirectoryLockedError(StorageError):
    """Another process owns the data directory."""


class DirectoryFailedError(StorageError):
    """An earlier fsync or write failed; nothing more is accepted in this directory."""


class PartitionDeletedError(StorageError):
    """The partition was deleted while a request still needed it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownStorageEngineError(StorageError):
    """No storage engine of that name is installed."""


class UnreadableSegmentError(StorageError):
    """A segment cannot be opened: its key is missing, or its format is of a later version."""


class CorruptLogError(StorageError):
    """Damage inside a log that is no torn tail: it must be repaired, never truncated."""


class InvalidSettingError(QanatError):
    """A setting is unknown, or its value is invalid."""

    code = ErrorCode.INVALID_CONFIG


class StoreUnavailableError(QanatError):
    """The metadata store did not answer, or cannot be used; whether a commit took effect may be unknown."""

    code = ErrorCode.REQUEST_TIMED_OUT


class LeaseExpiredError(QanatError):
    """A lease in the metadata store has expired or was revoked; its keys are gone."""

    code = ErrorCode.STALE_BROKER_EPOCH


class AddressInUseError(QanatError):
    """A listener's address cannot be bound."""
