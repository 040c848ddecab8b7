"""API keys in the metadata store of a broker, which need not run; running brokers that share it see every change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.node.metadata_store import open_store
from qanat.app.settings.loading import flag, load
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Absent, Committed, Compare, Delete, MetadataStore, Operation, Put

Result = TypeVar("Result")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The metadata store that holds the keys."""

    data_dir: Annotated[str | None, Parameter(name="--data-dir", metavar="PATH")] = None
    """Data directory of a broker on this machine, which need not run."""
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None
    """Settings file of a broker, for its data directory or its etcd."""


NOWHERE = KeyPlace()


class KeyStore:
    """The keys of a cluster."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def keys(self) -> Mapping[str, values.ApiKey]:
        return MetadataImage.of(await self._store.list(keys.API_KEYS)).api_keys

    async def add(self, identity: str, key: values.ApiKey) -> None:
        place = keys.api_key(identity)
        await self._commit([Absent(place)], [Put(place, values.encode(key))])

    async def remove(self, identity: str) -> None:
        await self._commit([], [Delete(keys.api_key(identity))])

    async def _commit(self, compares: list[Compare], operations: list[Operation]) -> None:
        if not isinstance(await self._store.commit(compares, operations), Committed):
            raise WrongArgumentError("the key was changed meanwhile: try again")


def on_keys(place: KeyPlace, work: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    """Open the store, do the work, close it."""
    if place.data_dir is None and place.config is None:
        raise WrongArgumentError(
            "API keys are in the metadata store: give --data-dir of a broker on this machine, or --config with "
            "its settings"
        )
    flags = [] if place.data_dir is None else [flag("data.dir", place.data_dir, "--data-dir")]
    settings = load(flags, place.config, os.environ).settings
    if settings.storage_engine == "memory":
        raise WrongArgumentError("a broker in memory has no metadata store that others can open")

    async def opened() -> Result:
        store = await open_store(settings)
        try:
            return await work(KeyStore(store))
        finally:
            await store.close()

    return asyncio.run(opened())
