"""A real broker on the caller's event loop, for tests that are coroutines themselves.

    async with EmbeddedBroker.here() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

It is what `qanat start` runs, in memory and without the initial rebalance delay.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.app.settings.node_settings import NodeSettings
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import KafkaConnection
from qanat.testing.faults import Fault, Faults
from qanat.testing.secured import change_rule, client_settings, rule_of, secured_settings, set_passwords
from qanat.testing.stored import StoredRecord, count, read_all

WAIT_S = 10.0
"""The default timeout of `wait_for`."""
_LOOK_AGAIN_S = 0.005

_QUICK = {"port": 0, "http.port": -1, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1}
_IN_MEMORY = {"storage.engine": "memory", "offsets.topic.num.partitions": 1}


class BrokerHere:
    """One broker, as an asynchronous context manager."""

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """Store everything in memory, or in `data_dir`; `settings` are a broker's, under Kafka's names.

        With `users`, names and passwords, clients log in, and may do what rules allow them (`allow`).
        """
        self._users = users
        secured = {} if users is None else secured_settings()
        self._settings = _node_settings(data_dir, {**secured, **(settings or {})})
        self._is_memory = self._settings.storage_engine == "memory"
        self._store: MemoryStore | None = None
        self._engine: MemoryEngine | None = None
        self._node: Node | None = None
        self.faults = Faults()
        self.problems: list[BaseException] = []
        """The errors that made the broker disconnect a client, oldest first."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bootstrap_servers if self._node else 'not running'}>"

    async def __aenter__(self) -> Self:
        if self._is_memory:
            self._store, self._engine = MemoryStore(), MemoryEngine(self._settings.directory)
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._close()
        finally:
            if self._store is not None:
                await self._store.close()

    async def _open(self) -> None:
        node = Node(self._settings, self._on_problem, store=self._store, engine=self._engine)
        await node.__aenter__()
        dispatcher = node.listener.dispatcher
        if dispatcher.interceptor is not None:
            self.faults.next_handler = dispatcher.interceptor
        dispatcher.interceptor = self.faults.intercept
        # A restart uses the same ports.
        broker = replace(self._settings.broker, port=node.listener.port)
        listeners = tuple(
            one._replace(port=node.listener.ports.get(one.name, one.port)) for one in self._settings.listeners
        )
        self._settings = replace(self._settings, broker=broker, listeners=listeners)
        self._node = node
        if self._users:
            await set_passwords(node.broker, self._users)

    async def _close(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.__aexit__(None, None, None)

    def _on_problem(self, connection: KafkaConnection, fault: BaseException) -> None:
        self.problems.append(fault)

    @property
    def node(self) -> Node:
        """The node itself, for a closer look."""
        if self._node is None:
            raise RuntimeError("the broker is not running: use it as a context manager")
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        """Host and port, for the client setting of this name."""
        return self.node.address

    async def restart(self, down_seconds: float = 0.0) -> None:
        """Stop and start again on the same port with everything that was acknowledged."""
        await self._close()
        await asyncio.sleep(down_seconds)
        await self._open()

    # Users and rules

    def client_settings(self, user: str) -> dict[str, str]:
        """Settings of librdkafka for one of the `users`; other clients have the same under their names."""
        return client_settings(self.bootstrap_servers, user, (self._users or {})[user])

    async def allow(self, user: str, operation: str, **resource: str) -> None:
        """Allow an operation: `allow("alice", "read", topic="orders")`; `group`, `transactional_id` and `cluster` are
        the other resources, and a name that ends with `*` is a prefix."""
        await change_rule(self.node.broker, rule_of(user, operation, resource, is_allowed=True), is_created=True)

    async def deny(self, user: str, operation: str, **resource: str) -> None:
        """Deny an operation, whatever else allows it."""
        await change_rule(self.node.broker, rule_of(user, operation, resource, is_allowed=False), is_created=True)

    async def revoke(self, user: str, operation: str, **resource: str) -> None:
        """Delete the rule that `allow` has created."""
        await change_rule(self.node.broker, rule_of(user, operation, resource, is_allowed=True), is_created=False)

    # Topics

    async def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None) -> None:
        """Create a topic; raises `ValueError` where the broker refuses it."""
        broker = self.node.broker
        spelled = {key: str(value) for key, value in (configs or {}).items()}
        request = CreateTopic(name, broker.metadata_changes.new_topic_id(), partitions=partitions, configs=spelled)
        outcome = await broker.metadata_changes.create_topic(request)
        if isinstance(outcome, Rejection):
            raise ValueError(f"topic {name!r} cannot be created: {outcome.message}")

    def topics(self) -> list[str]:
        """The names of all topics but internal ones, sorted."""
        return sorted(topic.name for topic in self.node.broker.metadata.image.topics.values() if not topic.is_internal)

    async def records(self, topic: str) -> list[StoredRecord]:
        """All records of the topic, by partition and offset; raises `LookupError` where there is none."""
        if topic not in self.node.broker.metadata.image.topics:
            raise LookupError(f"there is no topic {topic!r}; topics are {self.topics()}")
        return await read_all(self.node.broker, topic)

    async def wait_for(self, topic: str, n: int, timeout: float = WAIT_S) -> list[StoredRecord]:  # noqa: ASYNC109
        """The topic's records once there are at least `n`, whether or not it exists yet; raises `TimeoutError`."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            broker = self.node.broker
            found = await read_all(broker, topic) if count(broker, topic) >= n else []
            if len(found) >= n and topic in broker.metadata.image.topics:
                return found
            if asyncio.get_running_loop().time() >= deadline:
                raise TimeoutError(f"{topic!r} holds {count(broker, topic)} records after {timeout} s, not {n}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    # Faults

    def delay(self, api: str, seconds: float, times: int = 1) -> Fault:
        """Delay the next requests of an API before they are handled."""
        return self.faults.delay(api, seconds, times)

    def drop(self, api: str, times: int = 1) -> Fault:
        """Close the connection instead of handling the request."""
        return self.faults.drop(api, times)

    def lose_answer(self, api: str, times: int = 1) -> Fault:
        """Handle the request, then close the connection instead of answering."""
        return self.faults.lose_answer(api, times)

    def fail(self, api: str, error: ErrorCode, times: int = 1) -> Fault:
        """Answer with an error and do nothing."""
        return self.faults.fail(api, error, times)

    def heal(self) -> None:
        """Remove every planned fault that has not struck yet."""
        self.faults.heal()

    async def members(self, group: str) -> list[str]:
        """The ids of a group's members."""
        from qanat.testing import groups

        return [member.member_id for member in (await groups.describe(self.node.broker, group)).members]

    async def expire_session(self, group: str, member_id: str) -> None:
        """Remove a member from its group, as after a session timeout."""
        from qanat.testing import groups

        await groups.expire_session(self.node.broker, group, member_id)

    async def force_rebalance(self, group: str) -> None:
        """Make every member of a stable group join again."""
        from qanat.testing import groups

        await groups.force_rebalance(self.node.broker, group)


def _node_settings(data_dir: str | os.PathLike[str] | None, settings: Mapping[str, object]) -> NodeSettings:
    kept = _IN_MEMORY if data_dir is None else {"data.dir": os.fspath(data_dir)}
    quick = {name: value for name, value in _QUICK.items() if name != "port" or "listeners" not in settings}
    wanted = {**quick, **kept, **settings}
    flags = [flag(name, _spelled(value), f"settings[{name!r}]") for name, value in wanted.items()]
    return load(flags, None, {}).settings


def _spelled(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
