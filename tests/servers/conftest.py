"""One broker in this process, for tests that drive it with real clients: memory only, on a free port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from tests.servers.kafka.raw import RawClient

from qanat.adapters.memory_store import MemoryStore
from qanat.app.node.compose import Logs, open_log_directory
from qanat.broker.broker import Broker
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.cluster import values
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.listener import KafkaListener

Result = TypeVar("Result")

CLUSTER_ID = "tests-cluster"
NODE_ID = 1


class RunningBroker:
    """A broker on a loop of its own, in a thread, so that any client may block meanwhile."""

    def __init__(self, settings: BrokerSettings, engine: str, path: str) -> None:
        self._settings = settings
        self._engine = engine
        self._path = path
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
        self.faults: list[BaseException] = []
        self.broker: Broker
        self.loop: asyncio.AbstractEventLoop
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._started.result(20)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine where the broker runs."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as fault:  # noqa: BLE001 - `start` raises it.
            if not self._started.done():
                self._started.set_exception(fault)

    async def _serve(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        store = MemoryStore()
        directory = open_log_directory(self._path, engine=self._engine, cluster_id=CLUSTER_ID, node_id=NODE_ID)
        async with Logs(directory) as runtime:
            self.broker = Broker(self._settings, NODE_ID, store, runtime, seed=1)
            listener = KafkaListener(self.broker, self._on_fault)
            await listener.bind()
            self.port = listener.port
            await self.broker.start(CLUSTER_ID, [values.Listener(name="PLAINTEXT", host="127.0.0.1", port=self.port)])
            await listener.serve()
            self._started.set_result(None)
            await self._over.wait()
            await listener.close()
            await self.broker.close()
        await store.close()

    def _on_fault(self, connection: KafkaConnection, fault: BaseException) -> None:
        self.faults.append(fault)


StartBroker = Callable[..., RunningBroker]


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Starts brokers with given settings; they are stopped at the end."""
    running: list[RunningBroker] = []

    def start(*, engine: str = "memory", path: str = "/data", **settings: object) -> RunningBroker:
        broker = RunningBroker(BrokerSettings.parse({"port": 0, **settings}), engine, path)
        broker.start()
        running.append(broker)
        return broker

    yield start
    for broker in running:
        broker.stop()


@pytest.fixture
def broker(start_broker: StartBroker) -> RunningBroker:
    return start_broker()


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with RawClient(broker.address) as connected:
        yield connected
