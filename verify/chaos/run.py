"""One run, from nothing to nothing: a network, a store, three brokers, clients, faults; then healing and judgement."""

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
from verify.chaos.disk import build_failing_disk
from verify.chaos.faults import Faults
from verify.chaos.judge import judge
from verify.chaos.network import Network
from verify.chaos.plan import DISK_KINDS, KINDS, LYING_KINDS, plan_faults
from verify.chaos.replicas import await_same_copies
from verify.chaos.report import Findings, Sample
from verify.chaos.stores import ETCD, Etcd, SqliteFile, Store
from verify.chaos.wholeness import Wholeness
from verify.chaos.workload import TOPICS, Workload

BROKERS = 3
_SAMPLE_S = 0.2
_START_S = 60.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run should be like."""

    store: str = "sqlite"
    seed: int = 1
    seconds: float = 1800.0
    period_s: float = 5.0
    """From one fault to the next."""
    rate: int = 7000
    """Records a second that writers try."""
    least_rate: float = 5000.0
    """Records a second that must be acknowledged between faults."""
    least_faults: int = 20
    """Faults of every kind that there must be."""
    kinds: tuple[str, ...] = KINDS
    group_protocol: str = "classic"
    """Of the group that reads along: `classic`, or `consumer` (KIP-848)."""


class Run:
    """`play` once; whatever happens, nothing is left behind but the folder."""

    def __init__(self, wanted: Wanted, folder: Path, tell: Tell) -> None:
        self._wanted, self._folder, self._tell = wanted, folder, tell
        self.findings = Findings(wanted.store, wanted.seed)
        machines = [f"broker-{number}" for number in range(BROKERS)]
        self._network = Network([*machines, ETCD] if wanted.store == "etcd" else machines)
        self._brokers: list[Broker] = []
        self._store: Store | None = None
        self._workload: Workload | None = None

    async def play(self) -> Findings:
        """Raises `NetworkUnavailableError` or `StoreUnavailableError` where this machine cannot do it."""
        try:
            self._network.open()
            kinds = await self._start()
            await self._under_fire(kinds)
        finally:
            self._close()
        self._tell("judging")
        assert self._workload is not None
        self.findings.anomalies += await asyncio.to_thread(judge, self._workload.journals, TOPICS)
        self.findings.measure_against(kinds, self._wanted.least_rate, self._wanted.least_faults)
        return self.findings

    async def _start(self) -> list[str]:
        """Everything but faults; the kinds of faults that can be had here."""
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
        raise RuntimeError(f"broker {broker.node_id} does not start: {broker.last_words()}")

    async def _await_first_records(self, workload: Workload) -> None:
        deadline = time.monotonic() + _START_S
        while not all(one.acknowledged for one in workload.writers):
            if time.monotonic() > deadline:
                silent = [one.name for one in workload.writers if not one.acknowledged]
                raise RuntimeError(f"nothing was acknowledged to {', '.join(silent)} in {_START_S:.0f} s")
            await asyncio.sleep(0.1)

    async def _under_fire(self, kinds: Sequence[str]) -> None:
        assert self._store is not None
        assert self._workload is not None
        workload, findings = self._workload, self.findings
        wholeness = Wholeness(self._bootstrap, BROKERS)
        faults = Faults(self._brokers, self._network, self._store, wholeness)
        keeping = asyncio.create_task(faults.keep_alive())
        began = time.monotonic()
        sampling = asyncio.create_task(self._sample(faults, workload, began))
        try:
            await self._strike(faults, kinds, began)
            findings.seconds = time.monotonic() - began
            sampling.cancel()
            healed = time.monotonic()
            self._tell("healed; waiting for everybody to finish")
            await workload.finish_writers()
            await workload.finish_readers()
            findings.readable_after_s = time.monotonic() - healed
            self._tell("reading everything from the start")
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

    async def _strike(self, faults: Faults, kinds: Sequence[str], began: float) -> None:
        """Let the plan happen; returns when the last fault is undone.

        A lying disk has the cluster to itself. Where that takes longer than its turn, everything else comes later.
        """
        wanted = self._wanted
        async with asyncio.TaskGroup() as striking:
            for fault in plan_faults(wanted.seed, wanted.seconds, BROKERS, wanted.period_s, kinds):
                await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
                if fault.kind not in LYING_KINDS:
                    striking.create_task(faults.strike(fault))
                    continue
                await faults.strike(fault)
                began += max(0.0, time.monotonic() - began - fault.at_s - wanted.period_s)
            await asyncio.sleep(max(0.0, began + wanted.seconds - time.monotonic()))

    async def _sample(self, faults: Faults, workload: Workload, began: float) -> None:
        while True:
            at_s = time.monotonic() - began
            self.findings.samples.append(Sample(at_s, workload.acknowledged, bool(faults.now)))
            names = "+".join(faults.now) or "-"
            self._tell(
                f"{at_s:6.0f} s  {faults.done.total():4} faults  {workload.acknowledged:>11,} acknowledged  {names}"
            )
            await asyncio.sleep(_SAMPLE_S)

    def _gather(self, faults: Faults, workload: Workload) -> None:
        findings = self.findings
        findings.faults = faults.done
        findings.lies = faults.lying.lies
        findings.longest_led_s, findings.longest_whole_s = faults.lying.longest_led_s, faults.lying.longest_whole_s
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
