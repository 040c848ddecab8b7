"""Errors of a remote broker, and which of them are worth a retry."""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

RETRIABLE = frozenset(
    {
        # A leader or a coordinator that is gone: soon there is another one, or it is back.
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Error codes that may be gone a moment later; all others are final."""


class UnreachableError(QanatError):
    """There is no answer at an address, or the connection broke before the answer."""

    code = ErrorCode.NETWORK_EXCEPTION


class UnansweredError(UnreachableError):
    """The broker accepts connections and answers nothing on them, as one that requires authentication does."""


class OutOfTimeError(QanatError):
    """The deadline passed before there was an answer."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NotOfferedError(QanatError):
    """The broker does not know an API, or none of our versions."""

    code = ErrorCode.UNSUPPORTED_VERSION


class UnsendableError(QanatError):
    """A request has a value that the protocol cannot carry: a number too large, a text too long."""

    code = ErrorCode.INVALID_REQUEST


class RefusedError(QanatError):
    """The broker answered with an error; `code` is its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = error_code(code)

    @property
    def is_retriable(self) -> bool:
        return self.code in RETRIABLE


def error_code(number: int) -> ErrorCode:
    """The code of that number; an unknown one becomes `UNKNOWN_SERVER_ERROR`."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refused(what: str, code: int, message: str | None = None) -> RefusedError:
    """The error for an answer with that code: what was requested, and the broker's reason."""
    name = error_code(code).name
    return RefusedError(code, f"{what}: {message} ({name})" if message else f"{what}: {name}")


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise `RefusedError` unless the code is none."""
    if code != ErrorCode.NONE:
        raise refused(what, code, message)
