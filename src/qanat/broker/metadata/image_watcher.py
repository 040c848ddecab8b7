"""The broker's picture of the cluster, kept true by watching the store.

A watch may gap or stall: when history is gone, and every `reconcile_ms` besides,
the whole picture is listed and compared (C80). Whoever has committed something
waits here until the picture contains it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from qanat.cluster import keys
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import (
    NO_REVISION,
    Committed,
    Compacted,
    Compare,
    Event,
    MetadataStore,
    Operation,
    Put,
    Refused,
    Revision,
)
from qanat.model.errors import StoreUnavailableError

RECONCILE_S = 30.0
REACH_S = 1.0
"""How long the watch may take to bring what was committed, before it is looked up: the watch may be stalled, and a
commit that changed nothing has a revision that no watch tells of where others share the store."""
REFUSED_S = 0.1
"""How long the watch may take to tell what a commit stumbled over, before it is looked up: that costs as much as the
cluster is large, and when a broker dies, many stumble at once."""
_RETRY_S = 0.5
NOT_TAKEN_IN = "a change of the metadata was not taken in"
"""What the loop's exception handler is told where a listener failed."""

OnEvents = Callable[[Sequence[Event]], None]


class ImageWatcher:
    """Owns the image. `on_events` is told what changed, after the image has it."""

    def __init__(self, store: MetadataStore, on_events: OnEvents) -> None:
        self.store = store
        self.image = MetadataImage()
        self._on_events = on_events
        self._news = asyncio.Event()
        """Set, and replaced, whenever the image has changed."""
        self._reached: dict[asyncio.Future[None], Revision] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take the first picture, then keep it up."""
        await self._catch_up()
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
        result = await self.store.commit(compares, operations)
        match result:
            case Committed(revision):
                await self._reach(revision)
                await self._fill_gap(revision, operations)
                return True
            case Refused():
                await self._hear_why([compare.key for compare in compares], result)
                return False

    async def has_deleted(self, topic: str) -> bool:
        """Whether a topic that existed is certainly gone, by the store itself; False where it cannot be asked now."""
        try:
            return await self.store.get(keys.topic(topic)) is None
        except StoreUnavailableError:
            return False

    async def _hear_why(self, names: Sequence[str], refused: Refused) -> None:
        """Return once the image has what stood in the way of a commit."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REFUSED_S
        while not self._is_known(names, refused):
            if loop.time() >= deadline:
                await self._catch_up()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()

    def _is_known(self, names: Sequence[str], refused: Refused) -> bool:
        """Whether the image is as new as the refusal, key by key: its revision says nothing where the watch gaps."""
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
                    with suppress(StoreUnavailableError):  # It is committed, and the watch is trying, too.
                        await self._catch_up()

    async def _fill_gap(self, revision: Revision, operations: Sequence[Operation]) -> None:
        """Look up what was committed where the watch has gone past it without telling."""
        written = [operation.key for operation in operations if isinstance(operation, Put)]
        while any(self.image.revisions.get(key, NO_REVISION) < revision for key in written):
            try:
                await self._catch_up()
                return
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    async def _catch_up(self) -> None:
        self._tell(self.image.catch_up(await self.store.list(keys.ROOT)))

    def _tell(self, events: Sequence[Event]) -> None:
        if events:
            try:
                self._on_events(events)
            except Exception as bug:  # noqa: BLE001 - whoever stumbles over one change must still hear of the next
                told = {"message": NOT_TAKEN_IN, "exception": bug}
                asyncio.get_running_loop().call_exception_handler(told)
        self._news.set()
        self._news = asyncio.Event()
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
                        await self._catch_up()
                        break
                    for event in change.events:
                        self.image.apply(event)
                    self._tell(change.events)
                    if any(map(self.image.is_torn, self.image.brokers)):
                        await self._catch_up()
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    async def _reconcile_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_S)
            try:
                await self._catch_up()
            except StoreUnavailableError:
                continue  # The watch is trying, too; the next round comes.
