"""The ledger of share partitions: the durable state of every group in every partition, one shard per partition
of `__share_group_state`.

It knows nothing of members and locks (`partition` does): it stores changes in the order in which they
come, and returns the state after a crash. As with every ledger here, a decision changes the state at once, its
answer waits until its records are durable, and a failed append costs a reload (`groups.decisions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, assert_never

from msgspec import Struct

from qanat.groups.share.record_states import StateBatch, overlaid
from qanat.groups.share.state_records import LedgerRecord, ShareKey, ShareSnapshot, ShareTombstone, ShareUpdate
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode


class BeginState(Struct, frozen=True):
    """Start at an offset, unless there is a state already: then that is the answer."""

    key: ShareKey
    leader_epoch: int
    start_offset: int


class ReadState(Struct, frozen=True):
    """Read the state."""

    key: ShareKey


class InitialiseState(Struct, frozen=True):
    """Start in an epoch that the caller has checked to be the next."""

    key: ShareKey
    state_epoch: int
    start_offset: int


class WriteState(Struct, frozen=True):
    """Store changes."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class ResetState(Struct, frozen=True):
    """Start again at an offset, whatever the state is."""

    key: ShareKey
    start_offset: int


class ForgetState(Struct, frozen=True):
    """Delete the state."""

    key: ShareKey


class SnapshotState(Struct, frozen=True):
    """Write the whole state, so that older records are not needed."""

    key: ShareKey


StateRequest: TypeAlias = (
    ReadState | BeginState | InitialiseState | WriteState | ResetState | ForgetState | SnapshotState
)


class StateReply(Struct, frozen=True):
    """The state after the request."""

    error: ErrorCode = ErrorCode.NONE
    state: ShareSnapshot | None = None


class StateDecision(Struct, frozen=True):
    """Records to append, then an answer to give."""

    records: tuple[LedgerRecord, ...] = ()
    reply: StateReply | None = None


class ShareStateShard:
    """See the module."""

    __slots__ = ("_updates", "states", "updates_per_snapshot")

    def __init__(self, updates_per_snapshot: int) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.states: dict[ShareKey, ShareSnapshot] = {}
        self._updates: dict[ShareKey, int] = {}
        """How many updates follow the last snapshot."""

    def __repr__(self) -> str:
        return f"ShareStateShard({len(self.states)} partitions)"

    def apply(self, record: LedgerRecord) -> None:
        """Apply a record from the log, or one that is about to be appended."""
        key = record.key
        match record:
            case ShareTombstone():
                self.states.pop(key, None)
                self._updates.pop(key, None)
            case ShareSnapshot():
                self.states[key] = record
                self._updates[key] = 0
            case ShareUpdate():
                before = self.states.get(key)
                if before is not None and record.snapshot_epoch == before.snapshot_epoch:
                    self.states[key] = _after(before, record)
                    self._updates[key] += 1
            case never:
                assert_never(never)

    def decide(self, request: StateRequest, now: Now) -> StateDecision:
        before = self.states.get(request.key)
        match request:
            case ReadState():
                return StateDecision(reply=StateReply(state=before))
            case BeginState() if before is not None:
                return StateDecision(reply=StateReply(state=before))
            case BeginState():
                return self._write(
                    ShareSnapshot(
                        request.key, 0, 0, request.leader_epoch, request.start_offset, (), now.wall_ms, now.wall_ms
                    )
                )
            case WriteState():
                return self._update(before, request, now)
            case ResetState():
                state_epoch = 0 if before is None else before.state_epoch + 1
                return self._write(_begun_anew(before, request.key, state_epoch, request.start_offset, now))
            case InitialiseState() if before is not None and request.state_epoch < before.state_epoch:
                return StateDecision(reply=StateReply(ErrorCode.FENCED_STATE_EPOCH))
            case InitialiseState():
                return self._write(_begun_anew(before, request.key, request.state_epoch, request.start_offset, now))
            case ForgetState() | SnapshotState() if before is None:
                return StateDecision(reply=StateReply())
            case ForgetState():
                return self._write(ShareTombstone(request.key))
            case SnapshotState():
                assert before is not None
                return self._write(_snapshot(before, now))
        assert_never(request)

    def _update(self, before: ShareSnapshot | None, request: WriteState, now: Now) -> StateDecision:
        if before is None or request.state_epoch != before.state_epoch:
            return StateDecision(reply=StateReply(ErrorCode.FENCED_STATE_EPOCH))
        if request.leader_epoch < before.leader_epoch:
            return StateDecision(reply=StateReply(ErrorCode.FENCED_LEADER_EPOCH))
        update = ShareUpdate(
            request.key, before.snapshot_epoch, request.leader_epoch, request.start_offset, request.batches
        )
        if self._updates[request.key] < self.updates_per_snapshot:
            return self._write(update)
        return self._write(_snapshot(_after(before, update), now))

    def _write(self, record: LedgerRecord) -> StateDecision:
        self.apply(record)
        return StateDecision((record,), StateReply(state=self.states.get(record.key)))

    def tick(self, now: Now) -> StateDecision:
        """Nothing here waits for a time."""
        return StateDecision()

    def next_deadline_ms(self) -> int | None:
        return None


def _after(before: ShareSnapshot, update: ShareUpdate) -> ShareSnapshot:
    start_offset = max(before.start_offset, update.start_offset)
    batches = tuple(overlaid(before.batches, update.batches, start_offset))
    return replace(before, leader_epoch=update.leader_epoch, start_offset=start_offset, batches=batches)


def _snapshot(state: ShareSnapshot, now: Now) -> ShareSnapshot:
    return replace(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=now.wall_ms)


def _begun_anew(
    before: ShareSnapshot | None, key: ShareKey, state_epoch: int, start_offset: int, now: Now
) -> ShareSnapshot:
    snapshot_epoch, leader_epoch = (0, 0) if before is None else (before.snapshot_epoch + 1, before.leader_epoch)
    return ShareSnapshot(key, snapshot_epoch, state_epoch, leader_epoch, start_offset, (), now.wall_ms, now.wall_ms)
