"""A real broker in a thread of its own, so that clients of any kind may block beside it.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Everything is done by `BrokerHere` on the thread's loop; this hands over and waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from qanat.app.node.node import Node
from qanat.model.error_codes import ErrorCode
from qanat.testing.faults import Fault
from qanat.testing.here import WAIT_S, BrokerHere
from qanat.testing.stored import StoredRecord

Result = TypeVar("Result")

_PATIENCE_S = 60.0
"""Longest wait for anything that has no limit of its own; the broker hangs if it is used up."""


class EmbeddedBroker:
    """One broker, as a context manager. Safe to use from any thread."""

    def __init__(
        self, *, data_dir: str | os.PathLike[str] | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        """Keep everything in memory, or in `data_dir`; `settings` are a broker's, under Kafka's names."""
        self._broker = BrokerHere(data_dir=data_dir, settings=settings)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    @classmethod
    def here(
        cls, *, data_dir: str | os.PathLike[str] | None = None, settings: Mapping[str, object] | None = None
    ) -> BrokerHere:
        """The same broker on the caller's loop: `async with EmbeddedBroker.here() as broker:`."""
        return BrokerHere(data_dir=data_dir, settings=settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bootstrap_servers if self._thread else 'not running'}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return once clients can connect; raises what `qanat start` would fail with."""
        assert self._thread is None, "already running"
        started: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(started,), name="qanat-broker", daemon=True)
        thread.start()
        try:
            started.result(_PATIENCE_S)
        except BaseException:
            thread.join(_PATIENCE_S)
            raise
        self._thread = thread

    def stop(self) -> None:
        """Return once nothing is left of the broker."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._loop.call_soon_threadsafe(self._over.set)
        thread.join(_PATIENCE_S)
        if thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {_PATIENCE_S:.0f} s")

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as fault:
            if started.done():
                raise
            started.set_exception(fault)

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with self._broker:
            started.set_result(None)
            await self._over.wait()

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]], patience_s: float = _PATIENCE_S) -> Result:
        """Run a coroutine where the broker runs."""
        if self._thread is None:
            raise RuntimeError("the broker is not running: use it as a context manager")
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(patience_s)

    @property
    def bootstrap_servers(self) -> str:
        """What every client calls by this name: host and port."""
        return self._broker.bootstrap_servers

    @property
    def node(self) -> Node:
        """The node behind it all, for whoever wants to look deeper; it lives on the broker's thread."""
        return self._broker.node

    @property
    def problems(self) -> list[BaseException]:
        """What made the broker cut a client off, oldest first."""
        return self._broker.problems

    def restart(self, down_seconds: float = 0.0) -> None:
        """Stop and start again on the same port with everything that was acknowledged."""
        self._do(lambda: self._broker.restart(down_seconds), _PATIENCE_S + down_seconds)

    # Topics

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None) -> None:
        """Create a topic; raises `ValueError` where the broker refuses it."""
        self._do(lambda: self._broker.create_topic(name, partitions, configs))

    def topics(self) -> list[str]:
        """The names of all topics but internal ones, sorted."""
        return self._broker.topics()

    def records(self, topic: str) -> list[StoredRecord]:
        """Everything that the topic holds, by partition and offset; raises `LookupError` where there is none."""
        return self._do(lambda: self._broker.records(topic))

    def wait_for(self, topic: str, n: int, timeout: float = WAIT_S) -> list[StoredRecord]:
        """The topic's records once there are at least `n`, whether or not it exists yet; raises `TimeoutError`."""
        return self._do(lambda: self._broker.wait_for(topic, n, timeout), _PATIENCE_S + timeout)

    # Trouble

    def delay(self, api: str, seconds: float, times: int = 1) -> Fault:
        """Let the next requests of an API wait before they are looked at."""
        return self._broker.delay(api, seconds, times)

    def drop(self, api: str, times: int = 1) -> Fault:
        """Close the connection instead of looking at the request."""
        return self._broker.drop(api, times)

    def lose_answer(self, api: str, times: int = 1) -> Fault:
        """Do what the request asks for, then close the connection instead of answering."""
        return self._broker.lose_answer(api, times)

    def fail(self, api: str, error: ErrorCode, times: int = 1) -> Fault:
        """Answer with an error and do nothing."""
        return self._broker.fail(api, error, times)

    def heal(self) -> None:
        """Forget every fault that was planned and has not struck yet."""
        self._broker.heal()

    def members(self, group: str) -> list[str]:
        """The ids of a group's members."""
        return self._do(lambda: self._broker.members(group))

    def expire_session(self, group: str, member_id: str) -> None:
        """Throw a member out of its group, as if it had been silent for too long."""
        self._do(lambda: self._broker.expire_session(group, member_id))

    def force_rebalance(self, group: str) -> None:
        """Make every member of a stable group join again."""
        self._do(lambda: self._broker.force_rebalance(group))
