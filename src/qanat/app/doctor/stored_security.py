"""Users, rules and API keys of a metadata store, for the doctor; a store that is not there yet has none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qanat.app.node.metadata_store import open_store
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.security.acl_entries import UnknownRuleError, rule_of
from qanat.cluster import keys, values
from qanat.cluster.host_defaults import hosts_of
from qanat.cluster.image import MetadataImage
from qanat.security.acls import Acl


@dataclass(frozen=True, slots=True)
class StoredSecurity:
    """What the store holds; never a secret."""

    iterations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By user and mechanism."""
    acls: tuple[Acl, ...] = ()
    api_keys: Mapping[str, values.ApiKey] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    """The hosts of the brokers that run."""


def read_stored(settings: NodeSettings) -> StoredSecurity:
    """Read the store; raises `QanatError` where it cannot be read."""
    if settings.storage_engine == "memory":
        return StoredSecurity()
    if settings.metadata.metadata_store == "sqlite" and not (Path(settings.data_dir) / "metadata.db").exists():
        return StoredSecurity()
    return asyncio.run(_read(settings))


async def _read(settings: NodeSettings) -> StoredSecurity:
    store = await open_store(settings)
    try:
        found = [await store.list(prefix) for prefix in (keys.CREDENTIALS, keys.ACLS, keys.API_KEYS, keys.BROKERS)]
    finally:
        await store.close()
    users, rules, api_keys, running = (MetadataImage.of(one) for one in found)
    return StoredSecurity(
        {who: credential.iterations for who, credential in users.credentials.items()},
        tuple(acl for entry in rules.acls.values() if (acl := _rule(entry)) is not None),
        api_keys.api_keys,
        frozenset(hosts_of(running.brokers)),
    )


def _rule(entry: values.AclEntry) -> Acl | None:
    try:
        return rule_of(entry)
    except UnknownRuleError:
        return None
