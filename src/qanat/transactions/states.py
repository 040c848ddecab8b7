"""The states of a transactional id, with Kafka's names and numbers.

    Empty, CompleteCommit, CompleteAbort -> Ongoing -> PrepareCommit -> CompleteCommit
                                                    -> PrepareAbort  -> CompleteAbort

InitProducerId leads from the three on the left to Empty. Kafka's `Dead` and
`PrepareEpochFence` exist in its memory only and are never written.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """The number is the one in the record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Kafka's spelling, which tools show and filter by."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the verdict is written and the markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to end."""
        return self is not TransactionState.ONGOING and not self.is_prepared


KNOWN_LABELS = {state.label: state for state in TransactionState}
