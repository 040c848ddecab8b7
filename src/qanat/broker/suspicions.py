"""Brokers whose process has ended, noticed before their lease runs out.

A process that ends takes its sockets with it: whoever follows it loses the connection at once, and a second attempt
finds nobody listening. Then its registration is removed, which takes some milliseconds where a lease takes
seconds. It is safe to be wrong: a lease fences nobody either, every write compares, and a broker that finds
its registration gone registers anew. Any other silence (a lost packet, a paused process, a host that is gone)
is left to the lease.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.cluster import keys
from qanat.cluster.store import Compare, CreatedAt, Delete, Operation
from qanat.model.errors import QanatError, StoreUnavailableError
from qanat.telemetry.events import event as tell

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_CONNECT_S = 1.0


class Suspicions:
    """One look at a time for each broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._looking: set[int] = set()

    def raise_against(self, node_id: int) -> None:
        """Somebody has lost the connection to a broker."""
        if node_id not in self._looking and node_id != self._broker.node_id:
            self._looking.add(node_id)
            self._broker.park(self._look(node_id)).add_done_callback(lambda _: self._looking.discard(node_id))

    async def _look(self, node_id: int) -> None:
        epoch = self._broker.metadata.image.broker_epochs.get(node_id)
        if epoch is None or not await self._is_deserted(node_id):
            return
        with suppress(StoreUnavailableError):  # Then nobody can elect anyway, and the lease runs out meanwhile.
            await self._remove(node_id, epoch)

    async def _is_deserted(self, node_id: int) -> bool:
        try:
            host, port = self._broker.address_of(node_id)
            async with asyncio.timeout(_CONNECT_S):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
            transport.abort()
        except ConnectionRefusedError:
            return True
        except (OSError, QanatError):
            return False
        return False

    async def _remove(self, node_id: int, epoch: int) -> None:
        image, ours = self._broker.metadata.image, self._broker.membership.epoch
        if ours is None or image.broker_epochs.get(node_id) != epoch:
            return
        key = keys.broker(node_id)
        compares: list[Compare] = [image.unchanged(key), CreatedAt(keys.broker(self._broker.node_id), ours)]
        operations: list[Operation] = [Delete(key)]
        if image.controller is not None and image.controller.node_id == node_id:
            compares.append(image.unchanged(keys.CONTROLLER))
            operations.append(Delete(keys.CONTROLLER))
        if await self._broker.metadata.commit(compares, operations):
            tell("broker is gone: nobody listens at its address", level="warning", node=node_id)
