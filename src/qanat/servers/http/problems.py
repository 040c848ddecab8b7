"""Errors as problem documents (RFC 9457): what was wrong, where, what to do.

Every HTTP error is one: of HTTP itself, of the request, and of the broker, whose code has Kafka's name in the member
`error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from qanat.connection.faults import error_code
from qanat.model.error_codes import ErrorCode

CONTENT_TYPE = b"application/problem+json"


class Problem(Exception):  # noqa: N818 - the RFC's word
    """An answer that is an error. `more` are further members of the document."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        error: ErrorCode | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.error = error
        self.headers = headers
        self.more = more

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """The members, in the order of the RFC."""
        members: dict[str, Any] = {"type": "about:blank"}
        members["title"] = HTTPStatus(self.status).phrase
        members["status"] = self.status
        members["detail"] = self.detail
        if instance is not None:
            members["instance"] = instance
        if self.error is not None:
            members["error"] = self.error.name
        return {**members, **self.more}

    def encode(self, instance: str | None = None) -> bytes:
        return msgspec.json.encode(self.document(instance)) + b"\n"


class ProblemDocument(msgspec.Struct, omit_defaults=True):
    """An error (RFC 9457): what was wrong, where, and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    error: str | None = None
    """Kafka's name of the error, where the broker answered with one."""


_BAD, _FORBIDDEN, _MISSING, _CONFLICT, _LATER = 400, 403, 404, 409, 503

_STATUS: Mapping[ErrorCode, int] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _MISSING,
    ErrorCode.UNKNOWN_TOPIC_ID: _MISSING,
    ErrorCode.GROUP_ID_NOT_FOUND: _MISSING,
    ErrorCode.UNKNOWN_MEMBER_ID: _MISSING,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: _MISSING,
    ErrorCode.RESOURCE_NOT_FOUND: _MISSING,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.TOPIC_ALREADY_EXISTS: _CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: _CONFLICT,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: _CONFLICT,
    ErrorCode.FENCED_MEMBER_EPOCH: _CONFLICT,
    ErrorCode.STALE_MEMBER_EPOCH: _CONFLICT,
    ErrorCode.ILLEGAL_GENERATION: _CONFLICT,
    ErrorCode.REBALANCE_IN_PROGRESS: _CONFLICT,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: _CONFLICT,
    ErrorCode.UNRELEASED_INSTANCE_ID: _CONFLICT,
    ErrorCode.INVALID_TXN_STATE: _CONFLICT,
    ErrorCode.INVALID_RECORD_STATE: _CONFLICT,
    ErrorCode.CONCURRENT_TRANSACTIONS: _LATER,
    ErrorCode.GROUP_MAX_SIZE_REACHED: _CONFLICT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.TOPIC_DELETION_DISABLED: _FORBIDDEN,
    ErrorCode.POLICY_VIOLATION: 422,
    ErrorCode.LEADER_NOT_AVAILABLE: _LATER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LATER,
    ErrorCode.NOT_CONTROLLER: _LATER,
    ErrorCode.NOT_COORDINATOR: _LATER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _LATER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _LATER,
    ErrorCode.BROKER_NOT_AVAILABLE: _LATER,
    ErrorCode.NOT_ENOUGH_REPLICAS: _LATER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _LATER,
    ErrorCode.KAFKA_STORAGE_ERROR: _LATER,
    ErrorCode.OFFSET_NOT_AVAILABLE: _LATER,
    ErrorCode.NETWORK_EXCEPTION: _LATER,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.UNSUPPORTED_VERSION: 501,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}
"""All others are the client's mistake: 400."""

_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for a replication_factor of at most the number of brokers "
    "(GET /api/v1/brokers lists them), or leave it out",
    ErrorCode.TOPIC_ALREADY_EXISTS: "use it as it is, or delete it first",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first, or wait until their sessions end",
    ErrorCode.UNKNOWN_MEMBER_ID: "subscribe again: the session ended, or the member was never there",
    ErrorCode.FENCED_MEMBER_EPOCH: "subscribe again to get a new epoch and assignment",
    ErrorCode.STALE_MEMBER_EPOCH: "send a heartbeat and use the epoch of its answer",
    ErrorCode.NOT_ENOUGH_REPLICAS: "wait until replicas are back, or lower min.insync.replicas",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has letters, digits, . _ - and at most 249 of them",
}


def status_of(code: ErrorCode) -> int:
    return _STATUS.get(code, _BAD)


def problem_of(code: int, what: str, message: str | None = None, **more: Any) -> Problem:
    """The problem for an error code of the broker: the subject, and the broker's message."""
    known = error_code(code)
    reason = message or known.name.lower().replace("_", " ")
    detail = f"{what}: {reason}"
    if known in _ADVICE:
        detail = f"{detail.rstrip('.')}; {_ADVICE[known]}"
    status = status_of(known)
    headers = ((b"retry-after", b"1"),) if status == _LATER else ()
    return Problem(status, detail, error=known, headers=headers, **more)


def check(code: int, what: str, message: str | None = None, **more: Any) -> None:
    """Raise the problem for a code, unless it is none."""
    if code != ErrorCode.NONE:
        raise problem_of(code, what, message, **more)
