"""Errors of the client. Each message is one sentence that says what was wrong and what to do.

What a broker answers or a network does is under `qanat.connection.faults`; all share the root `QanatError`.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, QanatError


class ClientError(QanatError):
    """Root of the client's own errors."""


class ClosedError(ClientError):
    """A client was used after its end."""

    code = ErrorCode.INVALID_REQUEST


class ForkedError(ClientError):
    """A client was made before a fork and used in the child process, which has neither its thread nor its sockets."""

    code = ErrorCode.INVALID_REQUEST


class UnknownSettingError(ClientError, InvalidSettingError):
    """A setting has a name that no client knows."""

    code = ErrorCode.INVALID_CONFIG


class SerializationError(ClientError):
    """A key or a value cannot be written as bytes, or bytes cannot be read; the message names topic and field."""

    code = ErrorCode.INVALID_RECORD


class MessageTooLargeError(ClientError):
    """A record is larger than the client, the topic or the broker allows; the message names the limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class DeliveryError(ClientError):
    """A record was not acknowledged; `code` is the reason."""

    def __init__(self, message: str, code: ErrorCode, *, may_be_written: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.may_be_written = may_be_written
        """Whether the broker may have it all the same: its answer was lost."""


class FencedError(ClientError):
    """Another producer has the transactional id, or another member the place in the group: end this one."""

    code = ErrorCode.PRODUCER_FENCED


class TransactionError(ClientError):
    """A transaction cannot be committed and was aborted, or a call does not fit its state."""

    code = ErrorCode.INVALID_TXN_STATE

    def __init__(self, message: str, *, may_be_committed: bool = False) -> None:
        super().__init__(message)
        self.may_be_committed = may_be_committed
        """Whether the transaction may be committed all the same: the coordinator's answer was lost."""


class LockLostError(ClientError):
    """The lock of a queue's record expired before the acknowledgement: another consumer may have the record."""

    code = ErrorCode.INVALID_RECORD_STATE


class SignatureError(ClientError):
    """A handler has not the parameters that it is given; the message shows the expected ones."""

    code = ErrorCode.INVALID_REQUEST
