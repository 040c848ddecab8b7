"""What may go wrong with the simulated disk, and the power that goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Act = Literal["create", "write", "cut", "sync", "rename", "remove", "mkdir", "rmdir", "sync_directory", "read"]
"""What is asked of a disk. All but `read` change it, are numbered, and are points where power can go out."""


class PowerLoss(BaseException):
    """The machine stops here. Not an `Exception`, so that no product code survives it by catching faults."""


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """The faults in force; replace the value on the disk to change them in mid-run."""

    power_loss_at_operation: int | None = None
    """Stop just before the operation of this number (the first is 1) and stay off."""

    tears_write: bool = False
    """Let the first part of a write still happen when power goes out, or an error strikes, at it."""

    fail_at_operations: tuple[int, ...] = ()
    """Operations that meet an I/O error. A failed `sync` drops its bytes and the next one lies that all is well."""

    capacity_bytes: int | None = None
    """Room for the contents of all files; a write that does not fit is done in part, then the disk is full."""

    is_read_only: bool = False
    """Refuse every change, as a file system does that was remounted after an error."""

    keeps_name_order: bool = True
    """At power loss a folder keeps its first changes and loses the rest, as a journal does. Off: only changes
    of one name are in order, and any of them may survive the others."""

    cold_chance: float = 0.0
    """How often `is_resident` says no, so that the slow way of reading is walked too."""
