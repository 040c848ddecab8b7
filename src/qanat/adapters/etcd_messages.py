"""The messages of etcd's API (v3) that the metadata store uses: requests to write, answers to read.

Field numbers are those of etcd's `rpc.proto` and `kv.proto`; unused fields are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qanat.adapters.etcd_wire import Value, as_bytes, as_int, blob, fields, message, number

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
COMPACT = "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
LEASE_TIME_TO_LIVE = "/etcdserverpb.Lease/LeaseTimeToLive"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
STATUS = "/etcdserverpb.Maintenance/Status"

_EQUAL = 0
_CREATE_TARGET, _MOD_TARGET = 1, 2


@dataclass(slots=True)
class Header:
    """The answering member, and the revision of the whole store."""

    cluster_id: int = 0
    member_id: int = 0
    revision: int = 0


@dataclass(slots=True)
class KeyValue:
    """A key as etcd stores it; `lease` is 0 where there is none."""

    key: bytes = b""
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    lease: int = 0


@dataclass(slots=True)
class RangeAnswer:
    header: Header = field(default_factory=Header)
    entries: list[KeyValue] = field(default_factory=list)
    has_more: bool = False


@dataclass(slots=True)
class TxnAnswer:
    """`ranges` are the answers of the reads, in order; the answers of writes are not used."""

    header: Header = field(default_factory=Header)
    is_done: bool = False
    ranges: list[RangeAnswer] = field(default_factory=list)


@dataclass(slots=True)
class WatchEvent:
    is_delete: bool = False
    entry: KeyValue = field(default_factory=KeyValue)


@dataclass(slots=True)
class WatchAnswer:
    """`is_fragment`: more fragments follow before it is complete."""

    header: Header = field(default_factory=Header)
    is_created: bool = False
    is_cancelled: bool = False
    compact_revision: int = 0
    reason: str = ""
    is_fragment: bool = False
    events: list[WatchEvent] = field(default_factory=list)


@dataclass(slots=True)
class LeaseAnswer:
    """`ttl_s` is not positive where the lease has expired."""

    header: Header = field(default_factory=Header)
    lease_id: int = 0
    ttl_s: int = 0


@dataclass(slots=True)
class StatusAnswer:
    header: Header = field(default_factory=Header)
    version: str = ""
    leader: int = 0


# Requests.


def range_request(key: bytes, range_end: bytes = b"", *, limit: int = 0, revision: int = 0) -> bytes:
    """Linearizable: the answer includes every commit that was answered before."""
    return blob(1, key) + blob(2, range_end) + number(3, limit) + number(4, revision)


def compare_create(key: bytes, revision: int) -> bytes:
    """True where the key was created at that revision; 0: where it is absent."""
    return number(1, _EQUAL) + number(2, _CREATE_TARGET) + blob(3, key) + _present_number(5, revision)


def compare_mod(key: bytes, revision: int) -> bytes:
    """True where the key was last written at that revision; 0: where it is absent."""
    return number(1, _EQUAL) + number(2, _MOD_TARGET) + blob(3, key) + _present_number(6, revision)


def put_operation(key: bytes, value: bytes, lease: int = 0) -> bytes:
    return message(2, blob(1, key) + blob(2, value) + number(3, lease))


def delete_operation(key: bytes, range_end: bytes = b"") -> bytes:
    return message(3, blob(1, key) + blob(2, range_end))


def range_operation(key: bytes) -> bytes:
    return message(1, range_request(key))


def txn_request(compares: Sequence[bytes], success: Sequence[bytes], failure: Sequence[bytes]) -> bytes:
    parts = [message(1, compare) for compare in compares]
    parts += [message(2, operation) for operation in success]
    parts += [message(3, operation) for operation in failure]
    return b"".join(parts)


def watch_create_request(key: bytes, range_end: bytes, start_revision: int) -> bytes:
    """In fragments, so that no answer is larger than the limit of a request."""
    return message(1, blob(1, key) + blob(2, range_end) + number(3, start_revision) + number(8, 1))


def watch_progress_request() -> bytes:
    return message(3, b"")


def lease_grant_request(ttl_s: int) -> bytes:
    return number(1, ttl_s)


def lease_request(lease_id: int) -> bytes:
    """For revoking a lease, keeping it alive, and reading its time to live."""
    return number(1, lease_id)


def compact_request(revision: int) -> bytes:
    return number(1, revision)


def authenticate_request(user: str, password: str) -> bytes:
    return blob(1, user.encode()) + blob(2, password.encode())


# Answers.


def read_header_of(data: bytes) -> Header:
    """The header that every answer begins with."""
    for field_number, value in fields(data):
        return _header(value) if field_number == 1 else Header()
    return Header()


def read_range(data: bytes) -> RangeAnswer:
    answer = RangeAnswer()
    for field_number, value in fields(data):
        match field_number:
            case 1:
                answer.header = _header(value)
            case 2:
                answer.entries.append(_key_value(value))
            case 3:
                answer.has_more = bool(value)
    return answer


def read_txn(data: bytes) -> TxnAnswer:
    answer = TxnAnswer()
    for field_number, value in fields(data):
        match field_number:
            case 1:
                answer.header = _header(value)
            case 2:
                answer.is_done = bool(value)
            case 3:
                answer.ranges += [read_range(as_bytes(one)) for kind, one in fields(as_bytes(value)) if kind == 1]
    return answer


def read_watch(data: bytes) -> WatchAnswer:
    answer = WatchAnswer()
    for field_number, value in fields(data):
        match field_number:
            case 1:
                answer.header = _header(value)
            case 3:
                answer.is_created = bool(value)
            case 4:
                answer.is_cancelled = bool(value)
            case 5:
                answer.compact_revision = as_int(value)
            case 6:
                answer.reason = as_bytes(value).decode(errors="replace")
            case 7:
                answer.is_fragment = bool(value)
            case 11:
                answer.events.append(_event(value))
    return answer


def read_lease(data: bytes) -> LeaseAnswer:
    answer = LeaseAnswer()
    for field_number, value in fields(data):
        match field_number:
            case 1:
                answer.header = _header(value)
            case 2:
                answer.lease_id = as_int(value)
            case 3:
                answer.ttl_s = as_int(value)
    return answer


def read_status(data: bytes) -> StatusAnswer:
    answer = StatusAnswer()
    for field_number, value in fields(data):
        match field_number:
            case 1:
                answer.header = _header(value)
            case 2:
                answer.version = as_bytes(value).decode(errors="replace")
            case 4:
                answer.leader = as_int(value)
    return answer


def read_token(data: bytes) -> str:
    return "".join(as_bytes(value).decode() for field_number, value in fields(data) if field_number == 2)


def _header(value: Value) -> Header:
    header = Header()
    for field_number, one in fields(as_bytes(value)):
        match field_number:
            case 1:
                header.cluster_id = as_int(one)
            case 2:
                header.member_id = as_int(one)
            case 3:
                header.revision = as_int(one)
    return header


def _key_value(value: Value) -> KeyValue:
    entry = KeyValue()
    for field_number, one in fields(as_bytes(value)):
        match field_number:
            case 1:
                entry.key = as_bytes(one)
            case 2:
                entry.create_revision = as_int(one)
            case 3:
                entry.mod_revision = as_int(one)
            case 5:
                entry.value = as_bytes(one)
            case 6:
                entry.lease = as_int(one)
    return entry


def _event(value: Value) -> WatchEvent:
    event = WatchEvent()
    for field_number, one in fields(as_bytes(value)):
        match field_number:
            case 1:
                event.is_delete = bool(one)
            case 2:
                event.entry = _key_value(one)
    return event


def _present_number(field_number: int, value: int) -> bytes:
    """A number that is written even if it is 0: its presence selects what is compared."""
    return number(field_number, value) or bytes((field_number << 3, 0))
