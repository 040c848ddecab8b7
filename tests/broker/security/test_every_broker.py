"""Rules and users of one broker are those of every broker of its cluster, and they outlive all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from qanat.adapters.sqlite_store import SqliteStore
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.security.acl_entries import entry_of
from qanat.broker.security.user_credentials import credential_of
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster.acls import decide_create, decide_delete, key_of
from qanat.cluster.credentials import decide_upsert
from qanat.log.settings import DirectorySettings
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.security.scram import verifier_of
from qanat.security.settings import SecuritySettings

ALICE = Principal("alice")
ORDERS = Resource(ResourceKind.TOPIC, "orders")
RULE = entry_of(
    Acl(ResourceKind.TOPIC, "orders", PatternType.LITERAL, "User:alice", ANY, Operation.READ, Permission.ALLOW)
)
SECURITY = SecuritySettings(
    listener_security_protocol="SASL_PLAINTEXT",
    security_inter_broker_protocol="PLAINTEXT",
    sasl_enabled_mechanisms="SCRAM-SHA-256",
    authorizer_class_name="StandardAuthorizer",
)
TIMEOUT_S = 60.0


@asynccontextmanager
async def two_nodes(path: Path) -> AsyncIterator[tuple[Node, Node]]:
    """Two brokers, each with a connection of its own to one store."""
    stores = [await SqliteStore.open(str(path / "metadata.db")) for _ in range(2)]
    settings = [
        NodeSettings(
            node_id=node_id,
            storage_engine="memory",
            broker=BrokerSettings(port=0, inter_broker_port=0),
            security=SECURITY,
        )
        for node_id in (1, 2)
    ]
    try:
        async with (
            Node(settings[0], store=stores[0], engine=MemoryEngine(DirectorySettings())) as first,
            Node(settings[1], store=stores[1], engine=MemoryEngine(DirectorySettings())) as second,
        ):
            yield first, second
    finally:
        for store in stores:
            await store.close()


async def seconds_until(is_so: Callable[[], bool]) -> float:
    began = time.monotonic()
    for _ in range(round(TIMEOUT_S / 0.01)):
        if is_so():
            return time.monotonic() - began
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


def allows(node: Node) -> bool:
    assert node.broker.acl_authorizer is not None
    return node.broker.acl_authorizer.allows(ALICE, "10.0.0.1", Operation.READ, ORDERS)


def test_a_rule_of_one_broker_is_a_rule_of_all(tmp_path: Path) -> None:
    created_s, deleted_s = asyncio.run(_times_until_a_rule_is_everywhere(tmp_path))

    assert max(created_s, deleted_s) < 30  # Milliseconds in health; tests share a busy machine.


async def _times_until_a_rule_is_everywhere(tmp_path: Path) -> tuple[float, float]:
    async with two_nodes(tmp_path) as (first, second):
        assert not allows(first)
        await first.broker.metadata_changes.carry_out(lambda image: decide_create(image, [RULE]))
        assert allows(first)
        created_s = await seconds_until(lambda: allows(second))
        await second.broker.metadata_changes.carry_out(lambda image: decide_delete(image, [key_of(RULE)]))
        assert not allows(second)
        return created_s, await seconds_until(lambda: not allows(first))


def test_rules_users_and_the_secret_of_salts_outlive_all_brokers(tmp_path: Path) -> None:
    asyncio.run(_restarted(tmp_path))


async def _restarted(tmp_path: Path) -> None:
    verifier = verifier_of("SCRAM-SHA-256", "wonderland", b"0123456789abcdef", 4096)
    async with two_nodes(tmp_path) as (first, second):
        changes = first.broker.metadata_changes
        await changes.carry_out(lambda image: decide_create(image, [RULE]))
        await changes.carry_out(lambda image: decide_upsert("alice", "SCRAM-SHA-256", credential_of(verifier)))
        secrets = {node.broker.metadata.image.scram_secret for node in (first, second)}
        assert len(secrets) == 1
        assert len(secrets.pop()) == 32
        before = first.broker.metadata.image.scram_secret
    async with two_nodes(tmp_path) as nodes:
        for node in nodes:
            image = node.broker.metadata.image
            assert allows(node)
            assert image.credentials["alice", "SCRAM-SHA-256"] == credential_of(verifier)
            assert image.scram_secret == before
