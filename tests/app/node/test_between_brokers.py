"""Brokers authenticate with each other, and the port between them grants nothing to any other caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers.tls.certificates import Authority

from qanat.adapters.memory_store import MemoryStore
from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.broker.security.user_credentials import credential_of
from qanat.cluster.credentials import decide_upsert
from qanat.cluster.topics import CreateTopic
from qanat.connection.deadline import Deadline
from qanat.connection.faults import UnreachableError
from qanat.connection.link import Link
from qanat.connection.sasl import NotAuthenticatedError
from qanat.connection.security import UNPROTECTED, Security, security_of
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, QanatError
from qanat.security.authentication import Principal
from qanat.security.authorization import CLUSTER, Operation, Resource
from qanat.security.scram import verifier_of
from qanat.servers.listener_security import ListenerSecurity
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

PROTOCOLS = ["SASL_PLAINTEXT", "SSL", "SASL_SSL"]
IN_TIME_S = 60.0


class Folder:
    """The files of a cluster: authority, certificates, passwords."""

    def __init__(self, path: Path) -> None:
        self.authority = Authority(path)
        self.broker = self.authority.client("broker", "CN=broker,OU=qanat")
        self.client = self.authority.client("client", "CN=alice,OU=people")
        self.path = path
        self.users, self.brokers = self._secret("users", "alice:secret\n"), self._secret("brokers", "broker:between\n")

    def _secret(self, name: str, content: str) -> Path:
        path = self.path / name
        path.touch(0o600)
        path.write_text(content)
        return path

    def settings(self, protocol: str) -> dict[str, object]:
        return {
            "listener.security.protocol": protocol,
            "sasl.plain.credentials.file": self.users,
            "inter.broker.credentials.file": self.brokers,
            "ssl.keystore.location": self.broker.both,
            "ssl.truststore.location": self.authority.trusted,
            "ssl.client.auth": "required",
        }

    def security(
        self,
        protocol: str,
        name: str = "alice",
        password: str = "secret",
        shown: Any = None,
        mechanism: str = "PLAIN",
    ) -> Security:
        """A client's."""
        settings = {"security.protocol": protocol, "ssl.ca.location": str(self.authority.trusted)}
        if shown is not None:
            settings |= {"ssl.certificate.location": str(shown.chain), "ssl.key.location": str(shown.key)}
        if protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        return security_of(settings)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@contextlib.asynccontextmanager
async def brokers(*settings: dict[str, object]) -> AsyncIterator[list[Node]]:
    """Brokers in memory that share a metadata store."""
    common = {"port": 0, "http.port": -1, "inter.broker.port": 0, "storage.engine": "memory"}
    store = MemoryStore()
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(store.close)
        nodes = []
        for number, own in enumerate(settings):
            flags = [flag(name, value, name) for name, value in {**common, "node.id": number, **own}.items()]
            nodes.append(await opened.enter_async_context(Node(load(flags, None, {}).settings, store=store)))
        yield nodes


async def replicated(nodes: list[Node], topic: str) -> None:
    """Create a topic with a replica on each broker, write a record, and wait until every replica has it."""
    broker = nodes[0].broker
    request = CreateTopic(topic, broker.metadata_changes.new_topic_id(), partitions=1, replication_factor=len(nodes))
    await broker.metadata_changes.create_topic(request)
    async with asyncio.timeout(IN_TIME_S):
        image = broker.metadata.image
        leader = nodes[image.state(image.topics[topic], 0).leader]
        await until(lambda: (topic, 0) in leader.broker.local_replicas.writable)
        await leader.broker.local_replicas.writable[topic, 0].append(bytearray(batch()))
        await until(lambda: all(_end(node, topic) == 1 for node in nodes))


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(round(IN_TIME_S / 0.01)):
        if is_so():
            return
        await asyncio.sleep(0.01)


def _end(node: Node, topic: str) -> int:
    logs = node.broker.runtime.directory.logs
    return max((log.end_offset for at, log in logs.items() if at.topic == topic), default=0)


def batch() -> bytes:
    return bytes(encode_batch([Record(0, 1, None, b"ours")]))


def inter_broker_port(node: Node) -> int:
    assert node.inter_broker is not None
    return node.inter_broker.port


async def ask(port: int, security: Security, key: ApiKey, request: Any, at_most: int | None = None) -> Any:
    deadline = Deadline.after(IN_TIME_S)
    link = await Link.open("127.0.0.1", port, "anyone", deadline, security)
    try:
        return await link.call(key, request, deadline, at_most=at_most)
    finally:
        await link.close()


def fetch(topic: str, replica_id: int = -1) -> FetchRequest:
    asked = FetchTopic(topic, partitions=[FetchPartition(0, partition_max_bytes=10_000)])
    return FetchRequest(replica_id=replica_id, max_bytes=10_000, topics=[asked], session_epoch=-1)


def produce(topic: str) -> ProduceRequest:
    rows = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch()))])]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=rows)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_brokers_replicate_over_a_protected_listener(folder: Folder, protocol: str) -> None:
    settings = folder.settings(protocol)
    async with brokers(settings, settings) as nodes:
        assert nodes[0].listeners.plan.inter_broker is not None
        assert nodes[0].listeners.plan.inter_broker.protocol == protocol
        await replicated(nodes, "orders")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_brokers_replicate_by_scram_beside_brokers_by_plain(folder: Folder, mechanism: str) -> None:
    plain = {**folder.settings("SASL_PLAINTEXT"), "authorizer.class.name": "StandardAuthorizer"}
    async with brokers(plain, {**plain, "sasl.mechanism.inter.broker.protocol": mechanism}) as nodes:
        shown = nodes[1].broker.peers.security
        assert shown is not None
        credentials = shown("SASL_PLAINTEXT").credentials
        assert credentials is not None
        assert credentials.mechanism == mechanism
        assert nodes[0].broker.metadata.image.credentials == {}, "brokers need no user in the metadata store"
        # Each broker leads one and follows the other.
        for topic in ("orders", "payments", "returns", "stock"):
            await replicated(nodes, topic)
        guesses = folder.security("SASL_PLAINTEXT", "broker", "wrong", mechanism=mechanism)
        with pytest.raises(NotAuthenticatedError):
            await ask(inter_broker_port(nodes[0]), guesses, ApiKey.METADATA, MetadataRequest([]))


async def test_a_user_with_the_name_of_brokers_is_no_broker(folder: Folder) -> None:
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    settings = {
        **folder.settings("SASL_PLAINTEXT"),
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "listener.security.protocol.map": "REPLICATION:SASL_PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "sasl.enabled.mechanisms": mechanisms,
        "authorizer.class.name": "StandardAuthorizer",
    }
    del settings["listener.security.protocol"]
    flags = [
        flag(name, value, name) for name, value in {**settings, "http.port": -1, "storage.engine": "memory"}.items()
    ]
    async with Node(load(flags, None, {}).settings) as node:
        for name in ("broker", "carol"):
            verifier = verifier_of("SCRAM-SHA-512", "chosen", b"salt" * 4, 4096)
            plan = decide_upsert(name, "SCRAM-SHA-512", credential_of(verifier))
            await node.broker.metadata.commit(plan.compares, plan.operations)
        port, replica = inter_broker_port(node), fetch("orders", replica_id=1)
        for mechanism in mechanisms.split(","):
            broker = folder.security("SASL_PLAINTEXT", "broker", "between", mechanism=mechanism)
            allowed = await ask(port, broker, ApiKey.FETCH, replica, at_most=12)
            assert allowed.error_code == ErrorCode.NONE
            posed = folder.security("SASL_PLAINTEXT", "broker", "chosen", mechanism=mechanism)
            with pytest.raises(NotAuthenticatedError):
                await ask(port, posed, ApiKey.FETCH, replica, at_most=12)
        carol = folder.security("SASL_PLAINTEXT", "carol", "chosen", mechanism="SCRAM-SHA-512")
        denied = await ask(port, carol, ApiKey.FETCH, replica, at_most=12)
        assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_unauthenticated_client_neither_reads_nor_writes_through_the_port(
    folder: Folder, protocol: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other").client("eve", "CN=broker,OU=qanat")
    callers = [UNPROTECTED, folder.security("SASL_PLAINTEXT", "broker", "wrong")]
    if protocol.endswith("SSL"):
        callers += [folder.security("SSL"), folder.security("SSL", shown=other)]
        callers.append(folder.security("SASL_SSL", "broker", "wrong"))
    if protocol.startswith("SASL"):
        # The password of a client, and the one of brokers under another name.
        callers += [folder.security(protocol), folder.security(protocol, "alice", "between")]
    settings = folder.settings(protocol)
    async with brokers(settings, settings) as nodes:
        await replicated(nodes, "orders")
        for node in nodes:
            for security in callers:
                for key, request in (
                    (ApiKey.METADATA, MetadataRequest([])),
                    (ApiKey.FETCH, fetch("orders")),
                    (ApiKey.FETCH, fetch("orders", replica_id=1)),
                    (ApiKey.PRODUCE, produce("orders")),
                ):
                    with pytest.raises(QanatError):
                        await ask(inter_broker_port(node), security, key, request)
            assert _end(node, "orders") == 1


async def test_a_certificate_that_is_no_brokers_makes_a_client_and_not_a_replica(folder: Folder) -> None:
    settings = folder.settings("SSL")
    async with brokers(settings, settings) as nodes:
        await replicated(nodes, "orders")
        port, client = inter_broker_port(nodes[0]), folder.security("SSL", shown=folder.client)
        posed = await ask(port, client, ApiKey.FETCH, fetch("orders", replica_id=1), at_most=12)
        assert posed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # Over that listener, brokers have the addresses of that listener.
        known = await ask(port, client, ApiKey.METADATA, MetadataRequest([]))
        assert {one.port for one in known.brokers} == set(map(inter_broker_port, nodes))


class OnlyThese:
    """An authorizer that allows CLUSTER_ACTION to some principals, and nothing else."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return operation is Operation.CLUSTER_ACTION and resource == CLUSTER and principal.name in self.names


async def test_with_an_authorizer_the_port_needs_cluster_action_with_every_request(folder: Folder) -> None:
    settings = folder.settings("SSL")
    async with brokers(settings, settings) as nodes:
        await replicated(nodes, "orders")
        rules = OnlyThese()
        node = nodes[0]
        assert node.inter_broker is not None
        node.inter_broker.dispatcher.interceptor = ListenerSecurity(None, rules, (), ()).handle
        security = folder.security("SSL", shown=folder.client)
        deadline = Deadline.after(IN_TIME_S)
        link = await Link.open("127.0.0.1", node.inter_broker.port, "anyone", deadline, security)

        async def codes() -> tuple[int, int]:
            read = await link.call(ApiKey.FETCH, fetch("orders", replica_id=1), deadline, at_most=12)
            wrote = await link.call(ApiKey.PRODUCE, produce("orders"), deadline)
            return read.error_code, wrote.responses[0].partition_responses[0].error_code

        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await codes() == denied
        rules.names = ("CN=alice,OU=people",)
        assert (await codes())[0] != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        rules.names = ()
        assert await codes() == denied
        await link.close()


async def test_a_client_that_poses_as_a_replica_needs_cluster_action_on_every_listener(folder: Folder) -> None:
    async with brokers({"inter.broker.port": 0}) as (node,):
        await replicated([node], "orders")
        rules = OnlyThese()
        node.listener.dispatcher.interceptor = ListenerSecurity(authorizer=rules).handle
        request = fetch("orders", replica_id=1)
        posed = await ask(node.listener.port, UNPROTECTED, ApiKey.FETCH, request, at_most=12)
        assert posed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        state = FetchRequest(replica_state=ReplicaState(1, 1), max_bytes=1000)
        posed = await ask(node.listener.port, UNPROTECTED, ApiKey.FETCH, state, at_most=17)
        assert posed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

        rules.names = ("ANONYMOUS",)
        allowed = await ask(node.listener.port, UNPROTECTED, ApiKey.FETCH, request, at_most=12)
        assert allowed.error_code == ErrorCode.NONE


async def test_brokers_of_two_protocols_find_each_other_so_that_a_cluster_changes_one_by_one(folder: Folder) -> None:
    protected = folder.settings("SASL_SSL")
    still_open = {**protected, "security.inter.broker.protocol": "PLAINTEXT"}
    async with brokers(still_open, protected) as nodes:
        await replicated(nodes, "orders")


async def test_a_broker_without_credentials_says_what_it_lacks(folder: Folder) -> None:
    async with brokers(folder.settings("SASL_PLAINTEXT"), {}) as nodes:
        with pytest.raises(UnreachableError, match=r"asks for SASL_PLAINTEXT, .*inter\.broker\.credentials\.file"):
            await nodes[1].broker.peers.call(0, ApiKey.METADATA, MetadataRequest([]), 10)
        assert len((await nodes[0].broker.peers.call(1, ApiKey.METADATA, MetadataRequest([]), 30)).brokers) == 2


async def test_credentials_between_brokers_are_one_line_that_others_cannot_read(folder: Folder) -> None:
    settings = folder.settings("SASL_PLAINTEXT")
    folder.brokers.write_text("a:b\nc:d\n")
    with pytest.raises(InvalidSettingError, match="should have one line name:password, and has 2"):
        async with brokers(settings):
            pass
    folder.brokers.chmod(0o644)
    with pytest.raises(InvalidSettingError, match="chmod 600"):
        async with brokers(settings):
            pass
    del settings["inter.broker.credentials.file"]
    with pytest.raises(InvalidSettingError, match=r"set inter\.broker\.credentials\.file to a file with one line"):
        async with brokers(settings):
            pass


async def test_a_mechanism_that_brokers_do_not_speak_is_refused_at_the_start(folder: Folder) -> None:
    settings = {**folder.settings("SASL_PLAINTEXT"), "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}
    with pytest.raises(InvalidSettingError, match="is OAUTHBEARER, but must be one of PLAIN, SCRAM-SHA-256"):
        async with brokers(settings):
            pass


async def test_clients_of_a_named_listener_between_brokers_stay_clients(folder: Folder) -> None:
    settings = {
        **folder.settings("SASL_PLAINTEXT"),
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "listener.security.protocol.map": "REPLICATION:SASL_PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
    }
    del settings["listener.security.protocol"]
    common = {"port", "inter.broker.port"}
    store = MemoryStore()
    quick = {"http.port": -1, "storage.engine": "memory"}
    flags = [flag(name, value, name) for name, value in {**quick, **settings}.items() if name not in common]
    async with Node(load(flags, None, {}).settings, store=store) as node:
        await replicated([node], "orders")
        port, alice = inter_broker_port(node), folder.security("SASL_PLAINTEXT")
        read = await ask(port, alice, ApiKey.FETCH, fetch("orders"), at_most=12)
        assert read.responses[0].partitions[0].error_code == ErrorCode.NONE
        posed = await ask(port, alice, ApiKey.FETCH, fetch("orders", replica_id=1), at_most=12)
        assert posed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        broker = folder.security("SASL_PLAINTEXT", "broker", "between")
        posed = await ask(port, broker, ApiKey.FETCH, fetch("orders", replica_id=1), at_most=12)
        assert posed.error_code == ErrorCode.NONE
        with pytest.raises(NotAuthenticatedError):
            await ask(node.listener.port, broker, ApiKey.METADATA, MetadataRequest([]))
    await store.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_brokers_renew_their_sessions_with_each_other(folder: Folder, mechanism: str) -> None:
    own = {
        **folder.settings("SASL_PLAINTEXT"),
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "connections.max.reauth.ms": 2000,
    }
    async with brokers(own, own) as nodes:
        await replicated(nodes, "first")
        listeners = [node.inter_broker for node in nodes if node.inter_broker is not None]
        await until(lambda: sum(one.counters.renewed for one in listeners) >= 2)
        assert sum(one.counters.renewed for one in listeners) >= 2
        await replicated(nodes, "second")
