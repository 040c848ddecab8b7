"""A real broker in a thread of its own, so that clients of any kind may block meanwhile.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

`BrokerHere` does everything on the thread's event loop; this passes calls on and waits.
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

_TIMEOUT_S = 60.0
"""Timeout of everything that has none of its own; the broker hangs if it is reached."""


class EmbeddedBroker:
    """One broker, as a context manager. Safe to use from any thread."""

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
        self._broker = BrokerHere(data_dir=data_dir, settings=settings, users=users)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    @classmethod
    def here(
        cls,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> BrokerHere:
        """The same broker on the caller's event loop: `async with EmbeddedBroker.here() as broker:`."""
        return BrokerHere(data_dir=data_dir, settings=settings, users=users)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bootstrap_servers if self._thread else 'not running'}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return once clients can connect; raises the errors of `qanat start`."""
        assert self._thread is None, "already running"
        started: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(started,), name="qanat-broker", daemon=True)
        thread.start()
        try:
            started.result(_TIMEOUT_S)
        except BaseException:
            thread.join(_TIMEOUT_S)
            raise
        self._thread = thread

    def stop(self) -> None:
        """Return once the broker has stopped completely."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._loop.call_soon_threadsafe(self._over.set)
        thread.join(_TIMEOUT_S)
        if thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {_TIMEOUT_S:.0f} s")

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

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]], timeout_s: float = _TIMEOUT_S) -> Result:
        """Run a coroutine on the broker's event loop."""
        if self._thread is None:
            raise RuntimeError("the broker is not running: use it as a context manager")
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(timeout_s)

    @property
    def bootstrap_servers(self) -> str:
        """Host and port, for the client setting of this name."""
        return self._broker.bootstrap_servers

    @property
    def node(self) -> Node:
        """The node itself, for a closer look; it lives on the broker's thread."""
        return self._broker.node

    @property
    def problems(self) -> list[BaseException]:
        """The errors that made the broker disconnect a client, oldest first."""
        return self._broker.problems

    def restart(self, down_seconds: float = 0.0) -> None:
        """Stop and start again on the same port with everything that was acknowledged."""
        self._do(lambda: self._broker.restart(down_seconds), _TIMEOUT_S + down_seconds)

    # Users and rules

    def client_settings(self, user: str) -> dict[str, str]:
        """Settings of librdkafka for one of the `users`; other clients have the same under their names."""
        return self._broker.client_settings(user)

    def allow(self, user: str, operation: str, **resource: str) -> None:
        """Allow an operation: `allow("alice", "read", topic="orders")`; `group`, `transactional_id` and `cluster` are
        the other resources, and a name that ends with `*` is a prefix."""
        self._do(lambda: self._broker.allow(user, operation, **resource))

    def deny(self, user: str, operation: str, **resource: str) -> None:
        """Deny an operation, whatever else allows it."""
        self._do(lambda: self._broker.deny(user, operation, **resource))

    def revoke(self, user: str, operation: str, **resource: str) -> None:
        """Delete the rule that `allow` has created."""
        self._do(lambda: self._broker.revoke(user, operation, **resource))

    # Topics

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None) -> None:
        """Create a topic; raises `ValueError` where the broker refuses it."""
        self._do(lambda: self._broker.create_topic(name, partitions, configs))

    def topics(self) -> list[str]:
        """The names of all topics but internal ones, sorted."""
        return self._broker.topics()

    def records(self, topic: str) -> list[StoredRecord]:
        """All records of the topic, by partition and offset; raises `LookupError` where there is none."""
        return self._do(lambda: self._broker.records(topic))

    def wait_for(self, topic: str, n: int, timeout: float = WAIT_S) -> list[StoredRecord]:
        """The topic's records once there are at least `n`, whether or not it exists yet; raises `TimeoutError`."""
        return self._do(lambda: self._broker.wait_for(topic, n, timeout), _TIMEOUT_S + timeout)

    # Faults

    def delay(self, api: str, seconds: float, times: int = 1) -> Fault:
        """Delay the next requests of an API before they are handled."""
        return self._broker.delay(api, seconds, times)

    def drop(self, api: str, times: int = 1) -> Fault:
        """Close the connection instead of handling the request."""
        return self._broker.drop(api, times)

    def lose_answer(self, api: str, times: int = 1) -> Fault:
        """Handle the request, then close the connection instead of answering."""
        return self._broker.lose_answer(api, times)

    def fail(self, api: str, error: ErrorCode, times: int = 1) -> Fault:
        """Answer with an error and do nothing."""
        return self._broker.fail(api, error, times)

    def heal(self) -> None:
        """Remove every planned fault that has not struck yet."""
        self._broker.heal()

    def members(self, group: str) -> list[str]:
        """The ids of a group's members."""
        return self._do(lambda: self._broker.members(group))

    def expire_session(self, group: str, member_id: str) -> None:
        """Remove a member from its group, as after a session timeout."""
        self._do(lambda: self._broker.expire_session(group, member_id))

    def force_rebalance(self, group: str) -> None:
        """Make every member of a stable group join again."""
        self._do(lambda: self._broker.force_rebalance(group))
