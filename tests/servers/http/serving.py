"""A node with an HTTP server in this process, on a loop of its own, and a small blocking client for it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import msgspec

from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.groups.settings import GroupSettings
from qanat.security.settings import SecuritySettings
from qanat.servers.http.settings import HttpSettings
from qanat.transactions.settings import TransactionSettings

TIMEOUT_S = 60.0
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ServedNode:
    """A node that serves until `stop`."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self._started: Future[None] = Future()
        self._stop: asyncio.Event
        self.loop: asyncio.AbstractEventLoop
        self.node: Node
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Node(self.settings) as self.node:
                self._started.set_result(None)
                await self._stop.wait()
        except BaseException as fault:
            if not self._started.done():
                self._started.set_exception(fault)
            raise

    def start(self) -> None:
        self._thread.start()
        self._started.result(TIMEOUT_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT_S)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    @property
    def port(self) -> int:
        assert self.node.http is not None
        return self.node.http.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is no bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            sent = dict(headers or {})
            data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
            if data is not None:
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.call("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})


def node_settings(data_dir: str | None = None, **http_settings: Any) -> NodeSettings:
    return NodeSettings(
        data_dir=data_dir or "data",
        storage_engine="memory" if data_dir is None else "file",
        broker=BrokerSettings(port=0),
        groups=GroupSettings(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0),
        transactions=TransactionSettings(transaction_state_log_num_partitions=1),
        security=SecuritySettings(),
        http=HttpSettings(**{"http_port": 0, **http_settings}),
    )


@contextlib.contextmanager
def served(settings: NodeSettings) -> Iterator[ServedNode]:
    node = ServedNode(settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()
