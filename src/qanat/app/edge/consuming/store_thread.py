"""The thread that owns the record store: every access to it is a call there, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from qanat.app.edge.consuming.record_store import RecordStore

Rest = ParamSpec("Rest")
Result = TypeVar("Result")


class StoreThread:
    """A record store behind its thread; belongs to one event loop."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, "consumer-store")
        self._store: RecordStore | None = None

    async def open(self, make: Callable[[], RecordStore]) -> None:
        self._store = await asyncio.get_running_loop().run_in_executor(self._worker, make)

    async def call(
        self, act: Callable[Concatenate[RecordStore, Rest], Result], *values: Rest.args, **named: Rest.kwargs
    ) -> Result:
        """Do something with the store. It is done, even where the caller is cancelled meanwhile."""
        store = self._store
        assert store is not None, "opened"
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: act(store, *values, **named))

    async def close(self) -> None:
        """Close the store after everything before it."""
        store, self._store = self._store, None
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, store.close)
        self._worker.shutdown()
