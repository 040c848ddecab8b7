"""Where a consumer fetches a partition next, as a value without I/O.

A cursor begins without an offset: the group's, or one by the reset policy. Then it fetches. A new leader epoch makes it
check first whether the log still holds what was read (KIP-320). `client.consumer` does what `need` says.

Rule 1: an offset that is out of range is reported once, then the policy decides.
Rule 2: an answer to a request from before a seek, a reset or another leader changes nothing: its `token` is old.
"""

from __future__ import annotations

from enum import Enum, auto

from qanat.model.error_codes import ErrorCode

_OTHER_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


class Reset(Enum):
    """Where to begin without an offset, or with one that is gone."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"


class Need(Enum):
    """What a cursor waits for."""

    OFFSET = auto()
    """The group's committed offset, or the policy's."""
    RESET = auto()
    """The offset that the policy names."""
    LEADER = auto()
    VALIDATION = auto()
    """The end of the last record's leader epoch."""
    FETCH = auto()
    NOTHING = auto()
    """It failed: the caller has to seek."""


class PartitionCursor:
    """One partition's position, its leader, and what comes next."""

    def __init__(self, policy: Reset) -> None:
        self._policy = policy
        self.token = 0
        """Changes whenever earlier answers no longer count."""
        self.offset = -1
        self.read_epoch = -1
        """The leader epoch of the last record read, -1 where it is not known."""
        self.leader = -1
        self.leader_epoch = -1
        self.failure = ""
        """Why it does not go on."""
        self._is_validated = True
        self._has_to_reset = False
        self._reset_to = policy

    @property
    def need(self) -> Need:
        if self.failure:
            return Need.NOTHING
        if self._has_to_reset:
            return Need.RESET
        if self.offset < 0:
            return Need.OFFSET
        if self.leader < 0:
            return Need.LEADER
        return Need.FETCH if self._is_validated else Need.VALIDATION

    @property
    def reset_to(self) -> Reset:
        """Where a reset goes."""
        return self._reset_to

    # Positions

    def seek(self, offset: int, read_epoch: int = -1) -> None:
        """Go on at that offset; `read_epoch` of the record before it, where it is known."""
        self.offset = offset
        self.read_epoch = read_epoch
        self.failure = ""
        self._has_to_reset = False
        self._is_validated = read_epoch < 0 or self.leader_epoch < 0
        self.token += 1

    def rewind(self) -> None:
        """Go back to the group's committed offset."""
        self.seek(-1)

    def has_no_offset(self, what: str) -> None:
        """There is none to begin with: the policy decides."""
        self._reset_by_policy(f"{what} has no committed offset, and auto.offset.reset is error")

    def reset(self, to: Reset) -> None:
        """Go to the beginning or the end, whatever the policy says."""
        self.failure = ""
        self._has_to_reset = True
        self._reset_to = to
        self.token += 1

    def advanced(self, offset: int, read_epoch: int) -> None:
        """A batch was fetched, and the next begins at that offset."""
        self.offset = offset
        if read_epoch >= 0:
            self.read_epoch = read_epoch

    def _reset_by_policy(self, failure: str) -> None:
        if self._policy is Reset.ERROR:
            self.fail(failure)
        else:
            self.reset(self._policy)

    # Leaders

    def led_by(self, leader: int, leader_epoch: int) -> None:
        """Metadata; an older leader epoch than the known one changes nothing."""
        if leader_epoch < self.leader_epoch:
            return
        if leader_epoch > self.leader_epoch and self.offset >= 0 and self.read_epoch >= 0:
            self._is_validated = False
        if (leader, leader_epoch) != (self.leader, self.leader_epoch):
            self.token += 1
        self.leader, self.leader_epoch = leader, leader_epoch

    def lost_leader(self) -> None:
        """The leader is gone, or it is none: metadata comes first."""
        self.leader = -1
        self.token += 1

    def made_anew(self) -> None:
        """The topic was deleted and made again: leader epochs begin again, and offsets mean nothing."""
        self.leader = self.leader_epoch = self.read_epoch = -1
        self.token += 1

    # Answers

    def refused(self, code: int, what: str, log_start: int = -1) -> str | None:
        """An error in an answer; returns what the user must hear, None where it mends itself."""
        if code in _OTHER_LEADER:
            self.lost_leader()
            return None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            begins = f"; it begins at {log_start}" if log_start >= 0 else ""
            gone = f"offset {self.offset} of {what} is not there{begins}"
            self._reset_by_policy(f"{gone}: seek to another offset, or set auto.offset.reset")
            return self.failure or f"{gone}: continuing at the {self._policy.value} (auto.offset.reset)"
        self.fail(f"{what} cannot be read: {_name(code)}")
        return self.failure

    def fail(self, reason: str) -> None:
        """Stop until the caller seeks."""
        self.failure = reason
        self.token += 1

    def validated(self, end_epoch: int, end_offset: int, what: str) -> str | None:
        """The leader's answer about the last record's epoch; returns what was truncated, None where nothing was."""
        self._is_validated = True
        if end_epoch < 0 or end_offset < 0:
            self._reset_by_policy(f"{what} was truncated, and nothing of what was read is left")
            return self.failure or f"{what} was truncated: continuing at the {self._policy.value}"
        if end_offset >= self.offset:
            return None
        truncated = f"{what} was truncated from offset {self.offset} to {end_offset}"
        if self._policy is Reset.ERROR:
            self.fail(f"{truncated}: seek to where to continue")
            return self.failure
        self.seek(end_offset, end_epoch)
        self._is_validated = True
        return f"{truncated}: continuing there"


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
