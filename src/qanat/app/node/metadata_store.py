"""The metadata store of a node, opened as its settings say: SQLite in its data directory, etcd, or memory."""

from __future__ import annotations

import os

from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.app.settings.node_settings import NodeSettings
from qanat.cluster.store import MetadataStore
from qanat.model.errors import ReadOnlyError, StorageError


async def open_store(settings: NodeSettings) -> MetadataStore:
    """Open the store; a new one is made where there is neither a store nor data."""
    # Imported where they are needed: each takes time to load.
    if settings.storage_engine != "memory":
        _make_folder(settings.data_dir)
    if settings.metadata.metadata_store == "etcd":
        from qanat.app.node.etcd_connection import open_etcd

        return await open_etcd(settings.metadata)
    if settings.storage_engine == "memory":
        from qanat.adapters.memory_store import MemoryStore

        return MemoryStore()
    from qanat.adapters.sqlite_store import SqliteStore

    path = f"{settings.data_dir}/metadata.db"
    _require_file(path, settings)
    return await SqliteStore.open(path)


def _make_folder(data_dir: str) -> None:
    try:
        os.makedirs(data_dir, exist_ok=True)
    except OSError as fault:
        raise ReadOnlyError(
            f"cannot create the data directory {data_dir}: {fault.strerror}; choose another --data-dir"
        ) from None


def _require_file(store: str, settings: NodeSettings) -> None:
    """Refuse to create a store where one was lost, before an empty file looks like one."""
    if not os.path.exists(store):
        try:
            refuse_orphans(settings)
        except StorageError:
            if not os.path.exists(store):  # Another broker may have made both since we looked.
                raise


def refuse_orphans(settings: NodeSettings) -> None:
    """Refuse to start a new cluster on the data of an old one: its topics would be unknown and block new ones."""
    data_dir, metadata = settings.data_dir, settings.metadata
    for name in sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else ():
        folder = f"{data_dir}/{name}"
        if name.startswith("broker-") and os.path.exists(f"{folder}/meta.properties"):
            raise StorageError(
                f"{folder} holds data and {_lost_store(data_dir, metadata)} "
                f"and start again. To start without that data: mv {folder} {data_dir}/old-{name}, then start; its "
                f"records stay readable with qanat log dump {data_dir}/old-{name}/TOPIC-PARTITION"
            )


def _lost_store(data_dir: str, metadata: MetadataSettings) -> str:
    if metadata.metadata_store == "etcd":
        return (
            f"etcd at {metadata.metadata_etcd_endpoints} knows no cluster under the prefix "
            f"{metadata.metadata_etcd_prefix!r}. Check metadata.etcd.endpoints and metadata.etcd.prefix, or restore "
            "etcd from a snapshot,"
        )
    store = f"{data_dir}/metadata.db"
    return (
        f"{store} is missing or empty: the list of topics, their settings and the cluster's id are lost with it. "
        f"Put {store} back from a backup (with its -wal file, if there is one)"
    )
