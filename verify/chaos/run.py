"""One chaos run: network, store, three brokers, clients and faults; then healing, judgement and cleanup."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from verify.chaos.brokers import PORT, Broker
from verify.chaos.client import FINISH_S
from verify.chaos.convergence import Convergence
from verify.chaos.disk import build_failing_disk
from verify.chaos.faults import Faults
from verify.chaos.judge import judge
from verify.chaos.network import Network
from verify.chaos.plan import DISK_KINDS, KINDS, LYING_KINDS, plan_faults
from verify.chaos.replicas import await_same_copies
from verify.chaos.report import Findings, Sample
from verify.chaos.stores import ETCD, Etcd, SqliteFile, Store
from verify.chaos.workload import TOPICS, Workload

BROKERS = 3
_SAMPLE_S = 0.2
_START_S = 60.0

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of a run."""

    store: str = "sqlite"
    seed: int = 1
    seconds: float = 1800.0
    period_s: float = 5.0
    """Time from one fault to the next."""
    rate: int = 7000
    """Records a second that producers send."""
    least_rate: float = 5000.0
    """Records a second that must be acknowledged between faults."""
    least_faults: int = 20
    """Required faults of each kind."""
    kinds: tuple[str, ...] = KINDS
    group_protocol: str = "classic"
    """Of the consumer group: `classic`, or `consumer` (KIP-848)."""


class Run:
    """One run: call `run` once. It leaves nothing behind but the folder, even after a failure."""

    def __init__(self, wanted: Wanted, folder: Path, show: Show) -> None:
        self._wanted, self._folder, self._show = wanted, folder, show
        self.findings = Findings(wanted.store, wanted.seed)
        machines = [f"broker-{number}" for number in range(BROKERS)]
        self._network = Network([*machines, ETCD] if wanted.store == "etcd" else machines)
        self._brokers: list[Broker] = []
        self._store: Store | None = None
        self._workload: Workload | None = None

    async def run(self) -> Findings:
        """Raises `NetworkUnavailableError` or `StoreUnavailableError` where this machine cannot do it."""
        try:
            self._network.open()
            kinds = await self._start()
            await self._run_faults(kinds)
        finally:
            self._close()
        self._show("judging")
        assert self._workload is not None
        self.findings.anomalies += await asyncio.to_thread(judge, self._workload.journals, TOPICS)
        self.findings.measure_against(kinds, self._wanted.least_rate, self._wanted.least_faults)
        return self.findings

    async def _start(self) -> list[str]:
        """Start everything but the faults; returns the kinds of faults that are possible here."""
        library = build_failing_disk(self._folder)
        kinds = list(self._wanted.kinds)
        if isinstance(library, str):
            self.findings.notes.append(library)
            kinds = [kind for kind in kinds if kind not in DISK_KINDS]
        self._store = (
            Etcd(self._folder, self._network)
            if self._wanted.store == "etcd"
            else SqliteFile(self._folder / "data" / "metadata.db")
        )
        self._store.start()
        shim = library if isinstance(library, Path) else None
        self._brokers = [
            Broker(number, self._folder, self._network, shim, self._store.settings) for number in range(BROKERS)
        ]
        for broker in self._brokers:
            broker.start()
        for broker in self._brokers:
            await self._answered(broker)
        await asyncio.to_thread(_create_topics, self._bootstrap)
        self._workload = Workload(self._folder, self._bootstrap, self._wanted.rate, self._wanted.group_protocol)
        await self._workload.start()
        await self._await_first_records(self._workload)
        return kinds

    @property
    def _bootstrap(self) -> str:
        return ",".join(broker.address for broker in self._brokers)

    async def _answered(self, broker: Broker) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and broker.is_running:
            try:
                socket.create_connection((broker.address.split(":")[0], PORT), timeout=1).close()
            except OSError:
                await asyncio.sleep(0.05)
            else:
                return
        raise RuntimeError(f"broker {broker.node_id} does not start: {broker.last_log_line()}")

    async def _await_first_records(self, workload: Workload) -> None:
        deadline = time.monotonic() + _START_S
        while not all(one.acknowledged for one in workload.writers):
            if time.monotonic() > deadline:
                silent = [one.name for one in workload.writers if not one.acknowledged]
                raise RuntimeError(f"{', '.join(silent)} got no acknowledgement in {_START_S:.0f} s")
            await asyncio.sleep(0.1)

    async def _run_faults(self, kinds: Sequence[str]) -> None:
        assert self._store is not None
        assert self._workload is not None
        workload, findings = self._workload, self.findings
        convergence = Convergence(self._bootstrap, BROKERS)
        faults = Faults(self._brokers, self._network, self._store, convergence)
        keeping = asyncio.create_task(faults.keep_alive())
        began = time.monotonic()
        sampling = asyncio.create_task(self._sample(faults, workload, began))
        try:
            await self._inject(faults, kinds, began)
            findings.seconds = time.monotonic() - began
            sampling.cancel()
            healed = time.monotonic()
            self._show("healed; waiting for all clients to finish")
            await workload.finish_writers()
            await workload.finish_readers()
            findings.readable_after_s = time.monotonic() - healed
            self._show("reading everything from the start")
            await workload.read_everything()
            folders = [broker.data for broker in self._brokers]
            findings.anomalies += await await_same_copies(folders, TOPICS, FINISH_S)
        finally:
            sampling.cancel()
            keeping.cancel()
            self._gather(faults, workload)
        if findings.readable_after_s > FINISH_S:
            findings.anomalies.append(f"not all was readable {FINISH_S:.0f} s after healing")
        if keeping.done() and not keeping.cancelled() and (fault := keeping.exception()):
            raise fault

    async def _inject(self, faults: Faults, kinds: Sequence[str], began: float) -> None:
        """Inject the plan's faults; returns when the last fault is healed.

        A lying disk is injected alone. Where that takes longer than its period, the rest of the plan is delayed.
        """
        wanted = self._wanted
        async with asyncio.TaskGroup() as injecting:
            for fault in plan_faults(wanted.seed, wanted.seconds, BROKERS, wanted.period_s, kinds):
                await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
                if fault.kind not in LYING_KINDS:
                    injecting.create_task(faults.inject(fault))
                    continue
                await faults.inject(fault)
                began += max(0.0, time.monotonic() - began - fault.at_s - wanted.period_s)
            await asyncio.sleep(max(0.0, began + wanted.seconds - time.monotonic()))

    async def _sample(self, faults: Faults, workload: Workload, began: float) -> None:
        while True:
            at_s = time.monotonic() - began
            self.findings.samples.append(Sample(at_s, workload.acknowledged, bool(faults.now)))
            names = "+".join(faults.now) or "-"
            self._show(
                f"{at_s:6.0f} s  {faults.done.total():4} faults  {workload.acknowledged:>11,} acknowledged  {names}"
            )
            await asyncio.sleep(_SAMPLE_S)

    def _gather(self, faults: Faults, workload: Workload) -> None:
        findings = self.findings
        findings.faults = faults.done
        findings.lies = faults.lying.lies
        findings.longest_led_s, findings.longest_in_sync_s = faults.lying.longest_led_s, faults.lying.longest_in_sync_s
        findings.anomalies += faults.lying.anomalies
        findings.notes += faults.notes
        findings.acknowledged = {one.name: one.acknowledged for one in workload.writers}
        findings.gaps_s = {one.name: one.gap_s for one in workload.writers}
        findings.read = {one.name: one.acknowledged for one in workload.clients if one not in workload.writers}
        for broker in self._brokers:
            for fault, times in broker.exceptions().items():
                findings.anomalies.append(f"exception: broker {broker.node_id}, {times} times: {fault}")
        for client in workload.clients:
            findings.anomalies += client.anomalies
            findings.notes += client.notes

    def _close(self) -> None:
        if self._workload is not None:
            self._workload.close()
        for broker in self._brokers:
            broker.kill()
        if self._store is not None:
            self._store.close()
        self._network.close()


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": "2", "retention.ms": "-1", "retention.bytes": "-1"}
    topics: Sequence[NewTopic] = [NewTopic(name, count, BROKERS, config=config) for name, count in TOPICS.items()]
    for future in admin.create_topics(list(topics)).values():
        future.result(_START_S)
