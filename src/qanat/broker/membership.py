"""Our place in the cluster: registered under a lease, and registered anew when the lease was lost.

Rule 1: a node id belongs to whoever holds its registration. A registration with our own data directory is of a process
        that is gone, because we hold the directory's lock; any other must run out first, and one that does not is
        somebody else with our number.
Rule 2: a registration's create revision is the broker's epoch. Registering anew is a new epoch; what we led in the old
        one we lead again only when the controller has said so.
Rule 3: a directory that is not the one this node had before is written down before we register: nobody
        must take us for the member of an in-sync set that the old one was.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.broker.unwaited import abandon
from qanat.cluster import format_levels, keys, values
from qanat.cluster.store import Absent, Delete, KeptLease, Put, Revision
from qanat.log.directory import LogDirectory
from qanat.model.errors import LeaseExpiredError, NodeIdInUseError, StoreUnavailableError
from qanat.telemetry.events import event as tell

if TYPE_CHECKING:
    from qanat.broker.metadata import MetadataKeeper

_RETRY_S = 0.5
_LOOK_S = 0.1


class Membership:
    """One broker's registration. `join` before use, `leave` at the end."""

    def __init__(
        self,
        metadata: MetadataKeeper,
        node_id: int,
        directory: LogDirectory,
        session_timeout_ms: int,
        *,
        rack: str | None = None,
    ) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._directory = directory
        self._directory_id = "" if directory.identity is None else directory.identity.directory_id
        directory.is_answered_for = True
        self._session_timeout_ms = session_timeout_ms
        self._rack = rack
        self._incarnation = uuid.uuid4().hex
        self._listeners: tuple[values.Listener, ...] = ()
        self._inter_broker: values.Listener | None = None
        self._kept: KeptLease | None = None
        self._is_stopping = False
        self._running_since = 0
        """Our first epoch; 0 until we have one."""
        self._removed = asyncio.Event()
        self._present = asyncio.Event()
        self.on_joined: Callable[[], None] | None = None
        """Told whenever we are registered, the first time and anew."""

    @property
    def kept(self) -> KeptLease | None:
        """The lease that our keys hang on."""
        return self._kept

    @property
    def epoch(self) -> Revision | None:
        """Our broker epoch; None while we are not registered."""
        image = self._metadata.image
        known = image.brokers.get(self._node_id)
        is_ours = known is not None and known.incarnation == self._incarnation
        return image.broker_epochs[self._node_id] if is_ours else None

    @property
    def running_since(self) -> int:
        """The first epoch of this process."""
        return self._running_since

    async def join(self, listeners: Sequence[values.Listener], inter_broker: values.Listener | None) -> None:
        """Register; raises `NodeIdInUseError` where another broker has our number."""
        self._listeners, self._inter_broker = tuple(listeners), inter_broker
        await self._note_directory()
        await self._register()

    async def stay(self) -> None:
        """Register anew whenever the lease is lost, for ever."""
        while True:
            await self._lost()
            tell("registration lost: registering anew", level="warning", node=self._node_id)
            while True:
                try:
                    await self._register()
                    break
                except (StoreUnavailableError, LeaseExpiredError, NodeIdInUseError) as fault:
                    tell("cannot register", level="error", node=self._node_id, reason=str(fault))
                    await asyncio.sleep(_RETRY_S)

    async def present(self) -> None:
        """Return once we are registered, or that takes too long. Whoever was not let run for a while (a laptop asleep,
        a machine that others keep busy) is taken for dead, and registers anew in the next moment: no reason to refuse
        what needs a broker."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._session_timeout_ms / 1000):
                while self.epoch is None:
                    self._present.clear()
                    await self._present.wait()

    def note(self) -> None:
        """Our key in the store has changed."""
        if self.epoch is None:
            self._removed.set()
        else:
            self._present.set()

    async def _lost(self) -> None:
        """Return once our registration is gone: with its lease, or because others took us for dead."""
        assert self._kept is not None, "joined"
        ends = [asyncio.ensure_future(self._kept.lost()), asyncio.ensure_future(self._removed.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            abandon(*ends)
        await self._kept.release()

    async def announce_stop(self) -> None:
        """Say that we want to lead nothing any more, now and whenever we register anew."""
        self._is_stopping = True
        if self._kept is None or self.epoch is None:
            return
        key = keys.broker(self._node_id)
        put = Put(key, values.encode(self._registration()), self._kept.lease.lease_id)
        with suppress(LeaseExpiredError):  # The next registration says it.
            await self._metadata.commit([self._metadata.image.unchanged(key)], [put])

    async def leave(self) -> None:
        """End our registration and whatever else hangs on the lease, now."""
        self._directory.known_revision = self._metadata.image.revision
        if self._kept is not None:
            await self._kept.release()
            try:
                async with asyncio.timeout(1.0):
                    await self._metadata.store.revoke(self._kept.lease)
            except (StoreUnavailableError, TimeoutError):
                pass  # It runs out by itself.

    @property
    def registration(self) -> values.BrokerRegistration:
        """What we say of ourselves, whether the store has it now or not."""
        return self._registration()

    # Registering

    def _registration(self) -> values.BrokerRegistration:
        return values.BrokerRegistration(
            node_id=self._node_id,
            incarnation=self._incarnation,
            listeners=self._listeners,
            rack=self._rack,
            directory_id=self._directory_id,
            inter_broker=self._inter_broker,
            is_stopping=self._is_stopping,
            is_clean=self._directory.sound_since == 0,
            sound_since=values.SINCE_NOW if self._directory.sound_since is None else self._directory.sound_since,
            levels=(format_levels.OLDEST, format_levels.NEWEST),
            stopped_at=self._directory.stopped_at,
            running_since=self._running_since,
            proves_logs=True,
        )

    async def _note_directory(self) -> None:
        image, key = self._metadata.image, keys.node_directory(self._node_id)
        while (known := image.node_directories.get(self._node_id)) != self._directory_id:
            if known is not None:
                tell("this node has another data directory than before", level="warning", node=self._node_id)
            note = values.NodeDirectory(directory_id=self._directory_id, is_first=known is None)
            await self._metadata.commit([image.unchanged(key)], [Put(key, values.encode(note))])

    async def _register(self) -> None:
        key = keys.broker(self._node_id)
        while True:
            await self._wait_for_place(key)
            lease = await self._metadata.store.grant_lease(self._session_timeout_ms)
            put = Put(key, values.encode(self._registration()), lease.lease_id)
            if await self._metadata.commit([Absent(key)], [put]):
                self._kept = self._metadata.store.keep(lease)
                self._removed.clear()
                self._present.set()
                self._note_epoch()
                if self._directory.sound_since is None:
                    # Later registrations say the same of the crash: whoever decides may not have seen this one.
                    self._directory.sound_since = self.epoch
                if self.on_joined is not None:
                    self.on_joined()
                return

    def _note_epoch(self) -> None:
        if (epoch := self.epoch) is not None:
            self._running_since = self._running_since or epoch

    async def _wait_for_place(self, key: str) -> None:
        image = self._metadata.image
        deadline = asyncio.get_running_loop().time() + 2 * self._session_timeout_ms / 1000
        is_told = False
        while (other := image.brokers.get(self._node_id)) is not None:
            is_predecessor = other.directory_id in ("", self._directory_id)
            if is_predecessor or other.incarnation == self._incarnation:
                await self._metadata.commit([image.unchanged(key)], [Delete(key)])
                continue
            if asyncio.get_running_loop().time() > deadline:
                at = other.listeners[0] if other.listeners else None
                where = f" at {at.host}:{at.port}" if at is not None else ""
                raise NodeIdInUseError(
                    f"another broker{where} has the node id {self._node_id}: choose another one (--node-id), "
                    "or stop that broker first"
                )
            if not is_told:
                tell("waiting for the registration of another broker with our node id to run out", node=self._node_id)
                is_told = True
            await asyncio.sleep(_LOOK_S)
