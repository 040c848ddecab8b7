"""What becomes of faults of our disk: a data directory that failed, logs that turn out to be damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.broker.runtime import operator_events
from qanat.log.partition_log import PartitionLog
from qanat.log.segments.batch_scan import Damage
from qanat.model.errors import StorageError, StoreUnavailableError

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class StorageFaults:
    """Listens to the logs of one broker. `start` before the directory may fail."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop: asyncio.AbstractEventLoop | None = None
        broker.runtime.on_damage = self._on_damage
        broker.runtime.directory.state.on_failure = self._on_failed_directory

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def _on_failed_directory(self, fault: StorageError) -> None:
        """Nothing can be written any more: let others lead, and be in no in-sync set (C23). The process stays.

        Called by whichever thread found out.
        """
        operator_events.directory_failure(fault)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._broker.park(self.stand_aside()))

    def _on_damage(self, log: PartitionLog, found: Sequence[Damage]) -> None:
        operator_events.damage(log, found)
        self._broker.replica_faults.note_damage(log.topic_partition)

    async def stand_aside(self) -> None:
        """Follow and lead nothing any more."""
        if self._broker.local_replicas.followers is not None:
            await self._broker.local_replicas.followers.close()
        with suppress(StoreUnavailableError):
            await self._broker.membership.announce_stop()
