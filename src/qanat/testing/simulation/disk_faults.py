"""Faults of the simulated disk, and power loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Act = Literal["create", "write", "truncate", "sync", "rename", "remove", "mkdir", "rmdir", "sync_directory", "read"]
"""Operations of a disk. All but `read` change it, are numbered, and are points where power can fail."""


class PowerLoss(BaseException):
    """The machine stops here. Not an `Exception`, so that no product code survives it by catching errors."""


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """The current faults; replace the value on the disk to change them during a run."""

    power_loss_at_operation: int | None = None
    """Stop just before the operation of this number (the first is 1) and stay off."""

    tears_write: bool = False
    """Complete the first part of a write at which power fails or an error strikes."""

    fail_at_operations: tuple[int, ...] = ()
    """Operations that fail with an I/O error. A failed `sync` drops its bytes and the next one wrongly succeeds."""

    capacity_bytes: int | None = None
    """Room for the contents of all files; a write that does not fit is done in part, then the disk is full."""

    is_read_only: bool = False
    """Refuse every change, like a file system that was remounted after an error."""

    keeps_name_order: bool = True
    """At power loss a folder keeps its first changes and loses the rest, as with a journal. Off: only changes
    of one name are in order, and any of them may survive the others."""

    cold_chance: float = 0.0
    """How often `is_resident` is False, so that cold reads are exercised too."""
