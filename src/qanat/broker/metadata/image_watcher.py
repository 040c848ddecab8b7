"""The metadata image of this broker, kept current by watching the store.

A watch may gap or stall: when history was compacted, and every `RECONCILE_S` as well, the watcher lists the whole store
and compares (C80). A caller that commits waits here until the image contains the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import assert_never

from qanat.cluster import keys
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import (
    NO_REVISION,
    Committed,
    Compacted,
    Compare,
    Delete,
    DeletePrefix,
    Event,
    MetadataStore,
    Operation,
    Put,
    Refused,
    Revision,
)
from qanat.model.errors import StoreUnavailableError
from qanat.telemetry.histogram import SECONDS, Histogram

RECONCILE_S = 30.0
REACH_S = 1.0
"""How long the watch may take to deliver a commit before we list the store: the watch may be stalled, and where others
share the store, no watch delivers the revision of a commit that changed nothing."""
REFUSED_S = 0.1
"""How long the watch may take to deliver what refused a commit before we list the store: a list costs as much as the
cluster is large, and when a broker dies, many commits are refused at once."""
_RETRY_S = 0.5
LISTENER_FAILED = "a change of the metadata was not taken in"
"""The message for the loop's exception handler where `on_events` failed."""

OnEvents = Callable[[Sequence[Event]], None]


class ImageWatcher:
    """Owns the image. It calls `on_events` with what changed, after the image has it."""

    def __init__(self, store: MetadataStore, on_events: OnEvents) -> None:
        self.store = store
        self.image = MetadataImage()
        self.commit_s = Histogram(SECONDS)
        """How long the store took for a commit."""
        self.committing = 0
        """Commits that the store has not answered yet."""
        self._on_events = on_events
        self._changed = asyncio.Event()
        """Set, and replaced, whenever the image has changed."""
        self._reached: dict[asyncio.Future[None], Revision] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """List the store, then watch it."""
        await self.catch_up()
        self._tasks = [
            asyncio.create_task(self._watch_for_ever(), name="metadata-watch"),
            asyncio.create_task(self._reconcile_for_ever(), name="metadata-reconcile"),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Commit, and return once the image has it; False, with the image caught up, where a compare did not hold."""
        result = await self._timed_commit(compares, operations)
        match result:
            case Committed(revision):
                await self._reach(revision)
                await self._fill_gap(revision, operations)
                return True
            case Refused():
                await self._await_conflict([compare.key for compare in compares], result)
                return False

    async def _timed_commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self.committing += 1
        try:
            return await self.store.commit(compares, operations)
        finally:
            self.committing -= 1
            self.commit_s.observe(loop.time() - began_s)

    async def has_deleted(self, topic: str) -> bool:
        """Whether a topic that existed is certainly deleted, by the store itself; False where the store does not
        answer."""
        try:
            return await self.store.get(keys.topic(topic)) is None
        except StoreUnavailableError:
            return False

    async def _await_conflict(self, names: Sequence[str], refused: Refused) -> None:
        """Return once the image has what refused a commit."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REFUSED_S
        while not self._is_known(names, refused):
            if loop.time() >= deadline:
                await self.catch_up()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()

    def _is_known(self, names: Sequence[str], refused: Refused) -> bool:
        """Whether the image is as new as the refusal, key by key: its revision says nothing if the watch has gaps."""
        for name, entry in zip(names, refused.entries, strict=True):
            ours = self.image.revisions.get(name)
            if entry is None:
                if ours is not None and ours <= refused.revision:
                    return False
            elif ours is None or ours < entry.mod_revision:
                return False
        return True

    async def _reach(self, revision: Revision) -> None:
        if self.image.revision < revision:
            reached = asyncio.get_running_loop().create_future()
            self._reached[reached] = revision
            while not reached.done():
                await asyncio.wait((reached,), timeout=REACH_S)
                if not reached.done():
                    with suppress(StoreUnavailableError):  # It is committed, and the watch retries as well.
                        await self.catch_up()

    async def _fill_gap(self, revision: Revision, operations: Sequence[Operation]) -> None:
        """List the store where the watch has gone past a commit without delivering it."""
        while any(self._lacks(operation, revision) for operation in operations):
            try:
                await self.catch_up()
                return
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    def _lacks(self, operation: Operation, revision: Revision) -> bool:
        """Whether the image is older than an operation of a commit. Keys below a prefix are deleted together with one
        that is named."""
        match operation:
            case Put(key):
                return self.image.revisions.get(key, NO_REVISION) < revision
            case Delete(key):
                return self.image.revisions.get(key, revision) < revision
            case DeletePrefix():
                return False
            case never:
                assert_never(never)

    async def catch_up(self) -> None:
        """List the store: the image has everything that was committed before."""
        self._notify(self.image.catch_up(await self.store.list(keys.ROOT)))

    def _notify(self, events: Sequence[Event]) -> None:
        if events:
            try:
                self._on_events(events)
            except Exception as bug:  # noqa: BLE001 - a listener that fails at one change must still get the next
                context = {"message": LISTENER_FAILED, "exception": bug}
                asyncio.get_running_loop().call_exception_handler(context)
        self._changed.set()
        self._changed = asyncio.Event()
        for reached, revision in list(self._reached.items()):
            if self.image.revision >= revision:
                del self._reached[reached]
                if not reached.done():
                    reached.set_result(None)

    async def _watch_for_ever(self) -> None:
        while True:
            try:
                async for change in self.store.watch(keys.ROOT, self.image.revision):
                    if isinstance(change, Compacted):
                        await self.catch_up()
                        break
                    for event in change.events:
                        self.image.apply(event)
                    self._notify(change.events)
                    if any(map(self.image.is_torn, self.image.brokers)):
                        await self.catch_up()
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    async def _reconcile_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_S)
            try:
                await self.catch_up()
            except StoreUnavailableError:
                continue  # The watch retries as well; the next round comes.
