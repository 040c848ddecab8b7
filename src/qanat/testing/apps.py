"""`run`: your app's handlers under a virtual clock, with real brokers, kills, rebalances and replay by seed.

    with qanat.testing.run(app, seed=7) as t:
        t.send("orders", Order(1, "x"))
        t.advance("5m")
        t.kill_worker()
        t.kill_leader("orders")  # of run(app, brokers=3)
        assert t.records("invoices") == [...]

Nothing waits: five minutes pass in milliseconds. One seed is one history, as far as the handlers are deterministic.
Sync handlers run in line. It works in pytest and in notebooks, where another event loop runs already.
"""

from __future__ import annotations

import asyncio
import gc
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from qanat.client import AsyncProducer, IoLoop, Metadata
from qanat.client.app.app import App
from qanat.client.app.clients import AppClients
from qanat.client.app.durations import Duration, seconds
from qanat.client.app.handlers import QueueHandler
from qanat.client.app.health import Health
from qanat.client.app.worker import AppWorker
from qanat.client.trace_headers import trace_headers
from qanat.cluster.topics import CreateTopic
from qanat.connection.cluster import Cluster
from qanat.connection.committed import committed_offsets
from qanat.connection.consuming import member_ids
from qanat.model.error_codes import ErrorCode
from qanat.testing.faults import Fault
from qanat.testing.simulated_broker import PORT, SimulatedBroker, SimulatedBrokers, use_clock, wall_ms
from qanat.testing.simulation.loop import OWNER, Owner, SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.testing.stored import StoredRecord, read_partition

Result = TypeVar("Result")
_BROKERS_MAX = 9
_SETTLE_S = 600.0
_LOOK_S = 0.25
_SECURITY = ("security", "sasl", "ssl")


class SimulatedWorker:
    """One worker process of the app, which can be killed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.owner = Owner(f"worker-{number}")
        self.app_worker: AppWorker | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.task is not None and not self.task.done() and not self.owner.is_dead


class AppRun:
    """An app with its workers and brokers, all in this thread. `with run(app) as t:`."""

    def __init__(
        self,
        app: App,
        seed: int = 0,
        *,
        workers: int = 1,
        brokers: int = 1,
        partitions: int = 4,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        """Topics of handlers are made with `partitions` partitions, unless `topics` says how many.

        Of several brokers, up to three have each record, and it is acknowledged once all but one of them have it.
        """
        if not 1 <= brokers <= _BROKERS_MAX:
            raise ValueError(f"brokers={brokers}: give a number from 1 to {_BROKERS_MAX}")
        self.app = app
        self.seed = seed
        self._wanted_workers = workers
        self._wanted_brokers = brokers
        self._partitions = partitions
        self._topics = dict(topics or {})
        self._random = Random(f"app {seed}")
        self._seeded = _Seeded(seed)
        self.workers: list[SimulatedWorker] = []

    def __repr__(self) -> str:
        return f"<AppRun seed={self.seed} at {self.now_s:.1f} s, {len(self.workers)} workers>"

    # The run

    def __enter__(self) -> Self:
        self._loop = SimLoop(self.seed)
        self._network = self._loop.network = SimNetwork(self._loop, self.seed)
        self._restore_clock = use_clock(self._loop)
        self._was_collecting = gc.isenabled()
        # What a killed worker left must not be collected during the run: that would run its clean-up code.
        gc.disable()
        try:
            self._do(self._boot)
        except BaseException as fault:
            self._end(fault)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        try:
            if fault is None:
                self._do(self._stop_all)
                self._raise_failures()
        except BaseException as late:
            self._note(late)
            raise
        finally:
            self._end(fault)

    def _end(self, fault: BaseException | None) -> None:
        if fault is not None:
            self._note(fault)
        for worker in self.workers:
            self._loop.kill(worker.owner)
        self._restore_clock()
        with self._seeded:
            self._loop.abandon()
        if self._was_collecting:
            gc.enable()

    def _note(self, fault: BaseException) -> None:
        fault.add_note(f"replay it with qanat.testing.run(app, seed={self.seed})")

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine on the simulated loop, also where another loop runs in this thread."""
        with self._seeded:
            return self._loop.run_until_complete(work())

    async def _boot(self) -> None:
        self.brokers = SimulatedBrokers(self._loop, self._network, self._wanted_brokers)
        await self.brokers.start()
        for handler in self.app.handlers:
            names = (*handler.topics, *((handler.dead_letter,) if handler.dead_letter else ()))
            for topic in names:
                self._topics.setdefault(topic, self._partitions)
        for topic, partitions in self._topics.items():
            await self._create(topic, partitions)
        self._producer = AsyncProducer(self.brokers.addresses, io=IoLoop.here())
        for _ in range(self._wanted_workers):
            await self._start_worker()

    async def _create(self, topic: str, partitions: int) -> None:
        node = self.broker.node
        assert node is not None
        changes = node.broker.metadata_changes
        await changes.create_topic(CreateTopic(topic, changes.new_topic_id(), partitions=partitions))

    @property
    def broker(self) -> SimulatedBroker:
        """A broker that runs."""
        return self.brokers.up[0]

    # Time and records

    @property
    def now_s(self) -> float:
        """The virtual time since the beginning."""
        return self._loop.time()

    def advance(self, duration: Duration) -> None:
        """Let time pass; raises what ended a worker meanwhile."""
        self._do(lambda: asyncio.sleep(seconds(duration)))
        self._raise_failures()

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> Metadata:
        """Write a record, and wait until it is acknowledged."""

        async def write() -> Metadata:
            return await (
                await self._producer.send(
                    topic, value, key=key, headers=tuple(headers), partition=partition, timestamp_ms=wall_ms()
                )
            )

        return self._do(write)

    def records(self, topic: str) -> list[StoredRecord]:
        """All records of a topic, by partition and offset, those of aborted transactions too."""

        async def read() -> list[StoredRecord]:
            return [one for leader in await self.brokers.leading(topic) for one in await read_partition(leader)]

        return self._do(read)

    def settle(self, within: Duration = _SETTLE_S) -> None:
        """Let time pass until all records are handled and committed; raises `TimeoutError` after `within`."""
        end_s = self.now_s + seconds(within)
        while self._do(self._lag) or self._held():
            if self.now_s >= end_s:
                raise TimeoutError(
                    f"handlers are not done after {seconds(within):g} s: {self._do(self._lag)} records are not "
                    f"committed, {self._held()} are held; {self.health().reason}"
                )
            self.advance(_LOOK_S)

    async def _lag(self) -> int:
        """Records that the groups of handlers have not committed; queues have no offsets of this kind."""
        lag = 0
        async with Cluster([(one.host, PORT) for one in self.brokers], "qanat-testing", 10.0) as cluster:
            for handler in self.app.handlers:
                if isinstance(handler, QueueHandler):
                    continue
                offsets = await committed_offsets(cluster, handler.group, cluster.deadline())
                for topic in handler.topics:
                    for partition in await self.brokers.leading(topic):
                        begin = max(partition.log.log_start_offset, offsets.get(partition.at, 0))
                        lag += max(0, partition.log.high_watermark - begin)
        return lag

    def _held(self) -> int:
        counters = [one for worker in self.workers if worker.app_worker for one in worker.app_worker.counters()]
        return sum(one.held for one in counters)

    # Workers

    async def _start_worker(self) -> SimulatedWorker:
        worker = SimulatedWorker(len(self.workers) + 1)
        self.workers.append(worker)
        context = copy_context()
        context.run(OWNER.set, worker.owner)
        worker.task = self._loop.create_task(self._work(worker), context=context)
        return worker

    async def _work(self, worker: SimulatedWorker) -> None:
        io = IoLoop.here()
        settings = {k: v for k, v in self.app.settings.items() if not k.startswith(_SECURITY)}
        clients = AppClients(self.app, io, servers=self.brokers.addresses, settings=settings)
        worker.app_worker = AppWorker(self.app, io, Random(f"{self.seed} {worker.number}"), clients, is_simulated=True)
        await self.app.serve_worker(worker.app_worker)

    def start_worker(self) -> SimulatedWorker:
        """One more worker: groups rebalance."""
        return self._do(self._start_worker)

    def kill_worker(self, worker: SimulatedWorker | None = None, *, restarts: bool = True) -> SimulatedWorker:
        """Kill a worker like `kill -9`, one chosen by the seed where none is given; another takes its place."""
        victim = worker or self._random.choice(self._up())
        self._loop.kill(victim.owner)
        self._network.forget(victim.owner, is_silent=False)
        if victim.app_worker is not None:
            self.app.forget_worker(victim.app_worker)
        self.workers.remove(victim)
        if restarts:
            self.start_worker()
        return victim

    def stop_worker(self, worker: SimulatedWorker | None = None) -> None:
        """Stop a worker as SIGTERM does: it finishes what runs, commits, and leaves."""
        stopping = worker or self._random.choice(self._up())

        async def stop() -> None:
            assert stopping.app_worker is not None
            assert stopping.task is not None
            stopping.app_worker.stop()
            await asyncio.wait([stopping.task])

        self._do(stop)
        self._raise_failures()
        self.workers.remove(stopping)

    def _up(self) -> list[SimulatedWorker]:
        up = [one for one in self.workers if one.is_up]
        if not up:
            raise LookupError("no worker runs: start one with start_worker()")
        return up

    async def _stop_all(self) -> None:
        self.brokers.faults.heal()
        for worker in self._up() if any(one.is_up for one in self.workers) else []:
            assert worker.app_worker is not None
            assert worker.task is not None
            worker.app_worker.stop()
            await asyncio.wait([worker.task])
        with suppress(Exception):
            await self._producer.close()

    def _raise_failures(self) -> None:
        for worker in list(self.workers):
            if worker.task is not None and worker.task.done() and not worker.task.cancelled():
                fault = worker.task.exception()
                if fault is not None:
                    self.workers.remove(worker)
                    raise fault

    def health(self) -> Health:
        """The health of all workers."""
        return self.app.health()

    # Faults

    def rebalance(self) -> None:
        """Make groups rebalance: another worker joins, and one leaves."""
        added = self.start_worker()
        self.advance("2s")
        self.stop_worker(added)

    def slow_broker(self, delay: Duration = "200ms") -> None:
        """Let everything that is sent take so long on average, until `heal`."""
        self._network.mean_delay_s = seconds(delay)
        self._network.reset_some(1.0)

    def delay(self, api: str, duration: Duration, times: int = 1) -> Fault:
        """Delay the next requests of an API, as `EmbeddedBroker.delay` does."""
        return self.brokers.faults.delay(api, seconds(duration), times)

    def drop(self, api: str, times: int = 1) -> Fault:
        """Close the connection instead of handling a request."""
        return self.brokers.faults.drop(api, times)

    def lose_answer(self, api: str, times: int = 1) -> Fault:
        """Handle a request, then close the connection instead of answering."""
        return self.brokers.faults.lose_answer(api, times)

    def fail(self, api: str, error: ErrorCode, times: int = 1) -> Fault:
        """Answer with an error and do nothing."""
        return self.brokers.faults.fail(api, error, times)

    def reset_connections(self, chance: float = 1.0) -> None:
        """Reset connections, in the middle of their data."""
        self._network.reset_some(chance)

    def restart_broker(self, down: Duration = "1s", broker: SimulatedBroker | None = None) -> None:
        """Stop a broker and start it again with everything that was acknowledged."""
        self.stop_broker(broker)
        self.advance(down)
        self.start_broker()

    def stop_broker(self, broker: SimulatedBroker | None = None) -> SimulatedBroker:
        """Shut a broker down cleanly, one chosen by the seed where none is given, until `start_broker`."""
        stopping = broker or self._random.choice(self.brokers.up)
        self._do(stopping.stop)
        return stopping

    def kill_broker(self, broker: SimulatedBroker | None = None) -> SimulatedBroker:
        """Kill a broker like `kill -9`, one chosen by the seed where none is given, until `start_broker`."""
        victim = broker or self._random.choice(self.brokers.up)
        victim.kill()
        return victim

    def kill_leader(self, topic: str, partition: int = 0) -> SimulatedBroker:
        """Kill the broker that leads a partition, until `start_broker`; another one takes over, where there is one."""
        self._do(lambda: self.brokers.leading(topic))  # An election that is under way is waited for.
        leader = self.brokers.leader(topic, partition)
        assert leader is not None
        return self.kill_broker(leader)

    def start_broker(self) -> None:
        """Start every broker that is down."""
        self._do(self.brokers.start)

    def heal(self) -> None:
        """End every fault."""
        self._network.mean_delay_s = 0.0005
        self._network.heal()
        self.brokers.faults.heal()


class _Seeded:
    """Run a simulated loop where another may run, as in a notebook, with random numbers, UUIDs and ids of members by
    the seed."""

    def __init__(self, seed: int) -> None:
        trace_headers()  # OpenTelemetry draws UUIDs when it is imported: not from ours, and only once.
        self._uuids, self._member_ids = Random(f"uuids {seed}"), Random(f"member ids {seed}")
        self._state = Random(f"random {seed}").getstate()

    def __enter__(self) -> None:
        self._running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        self._outside, self._uuid4, self._random_bytes = random.getstate(), uuid.uuid4, member_ids.random_bytes
        random.setstate(self._state)
        uuid.uuid4 = lambda: uuid.UUID(int=self._uuids.getrandbits(128), version=4)
        member_ids.random_bytes = self._member_ids.randbytes

    def __exit__(self, *_: object) -> None:
        uuid.uuid4, member_ids.random_bytes = self._uuid4, self._random_bytes
        self._state = random.getstate()
        random.setstate(self._outside)
        asyncio._set_running_loop(self._running)


run = AppRun
"""`qanat.testing.run(app, seed=7)`."""
