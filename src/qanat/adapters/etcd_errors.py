"""etcd's errors: a gRPC error becomes an `EtcdFault`, once, here.

Its text is for a person; its kind decides what may be done. Only `UNANSWERED` leaves it open whether the request had
an effect: there was no answer, or one from a member that could not know.
"""

from __future__ import annotations

from enum import Enum

import grpc

from qanat.model.errors import LeaseExpiredError, StoreUnavailableError


class FaultKind(Enum):
    """Kinds of faults of a request."""

    UNANSWERED = "unanswered"
    LEASE_GONE = "lease gone"
    COMPACTED = "compacted"
    TOKEN_OLD = "token old"
    FINAL = "final"


class EtcdFault(Exception):  # noqa: N818 - it never leaves the adapter
    """A request without a useful answer.

    `is_silent`: there was not even a refusal. `attempt`: the number of the attempt that failed.
    """

    def __init__(self, kind: FaultKind, text: str, *, is_silent: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.is_silent = is_silent
        self.attempt = 1


_BY_WORDS: tuple[tuple[str, FaultKind, str], ...] = (
    ("requested lease not found", FaultKind.LEASE_GONE, "the lease is over"),
    ("required revision has been compacted", FaultKind.COMPACTED, "that revision is gone"),
    ("invalid auth token", FaultKind.TOKEN_OLD, "the login is not valid any more"),
    ("revision of auth store is old", FaultKind.TOKEN_OLD, "users or roles have changed"),
    (
        "database space exceeded",
        FaultKind.FINAL,
        "etcd's space is used up; compact and defragment it, then `etcdctl alarm disarm`: the broker goes on by itself",
    ),
    (
        "request is too large",
        FaultKind.FINAL,
        "the commit is larger than this etcd allows; start it with --max-request-bytes of at least 1572864",
    ),
    (
        "too many operations in txn",
        FaultKind.FINAL,
        "the commit has more operations than this etcd allows; start it with --max-txn-ops of at least 128",
    ),
    ("user name is empty", FaultKind.FINAL, "etcd asks for a user; set metadata.etcd.credentials.file"),
    (
        "authentication failed",
        FaultKind.FINAL,
        "etcd does not know this user or password; check metadata.etcd.credentials.file",
    ),
    (
        "authentication is not enabled",
        FaultKind.FINAL,
        "etcd knows no users and one was given; remove metadata.etcd.credentials.file, or `etcdctl auth enable`",
    ),
    (
        "permission denied",
        FaultKind.FINAL,
        "etcd denies this user access; grant its role readwrite on everything below metadata.etcd.prefix",
    ),
    ("required revision is a future revision", FaultKind.FINAL, "it was restored from an old copy; restart the broker"),
    ("too many requests", FaultKind.UNANSWERED, "etcd has too much to do"),
)

_FINAL_CODES = {
    grpc.StatusCode.UNIMPLEMENTED: "the server there does not speak etcd's API v3",
    grpc.StatusCode.PERMISSION_DENIED: "access is denied",
    grpc.StatusCode.UNAUTHENTICATED: "access is denied",
    grpc.StatusCode.INVALID_ARGUMENT: "etcd does not accept the request",
    grpc.StatusCode.FAILED_PRECONDITION: "etcd does not accept the request",
    grpc.StatusCode.OUT_OF_RANGE: "etcd does not accept the request",
}


def judged(code: grpc.StatusCode, details: str) -> EtcdFault:
    """The fault for a call that ended with this code."""
    for words, kind, meaning in _BY_WORDS:
        if words in details:
            return EtcdFault(kind, meaning)
    if code in _FINAL_CODES:
        return EtcdFault(FaultKind.FINAL, f"{_FINAL_CODES[code]} ({details})")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return EtcdFault(FaultKind.UNANSWERED, "no answer in time", is_silent=True)
    _, _, last = details.rpartition("last error: ")
    return EtcdFault(FaultKind.UNANSWERED, last.removeprefix("UNKNOWN: ") or code.name)


def store_error(act: str, where: object, fault: EtcdFault) -> StoreUnavailableError:
    """The error for a fault that occurred when trying to `act` (a verb) on the store."""
    return StoreUnavailableError(f"cannot {act} the metadata store, {where}: {fault}")


def lease_is_over(lease_id: int) -> LeaseExpiredError:
    return LeaseExpiredError(f"lease {lease_id} is over; register again")
