"""The clients of a run: real clients, each a process on the host's side of the bridge."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from verify.chaos.client import FINISH_S, Task

TOPICS = {"steady": 16, "other": 4, "ledger": 4}
"""The topics of librdkafka, of aiokafka and of transactions, and their partitions."""
_LINE_BYTES = 1 << 20
_GRACE_S = 30.0
"""Beyond a client's own limit to finish."""


@dataclass
class Client:
    """A client's process, and its reports."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    acknowledged: int = 0
    """Or read, by a reader."""
    gap_s: float = 0.0
    ends: dict[str, int] = field(default_factory=dict)
    """The acknowledged end offsets, by partition."""
    notes: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
    _listening: asyncio.Task[None] | None = None

    def listen(self) -> None:
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            report = json.loads(line)
            self.acknowledged = report.get("acknowledged", report.get("read", self.acknowledged))
            self.gap_s = report.get("gap_s", self.gap_s)
            self.ends = report.get("ends", self.ends)
            self.notes += [report["note"]] if "note" in report else []
            self.anomalies += [report["anomaly"]] if "anomaly" in report else []

    async def finish(self, orders: object = None, seconds: float = FINISH_S + _GRACE_S) -> None:
        """Order it to finish, and wait until it has."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(orders or {}).encode() + b"\n")
        try:
            async with asyncio.timeout(seconds):
                code = await self.process.wait()
        except TimeoutError:
            self.anomalies.append(f"{self.name} did not finish in {seconds:.0f} s")
            self.kill()
            code = 0
        if self._listening is not None:
            await self._listening
        if code:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            self.anomalies.append(f"{self.name} ended with {code}: {lines[-1] if lines else ''}")

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()


class Workload:
    """All clients. `start`, later `finish_writers`, `finish_readers`, `read_everything`; `close` in any case."""

    def __init__(self, folder: Path, bootstrap: str, rate: int, group_protocol: str) -> None:
        self._folder, self._bootstrap, self._group_protocol = folder, bootstrap, group_protocol
        self.journals = folder / "journals"
        self.journals.mkdir()
        in_transactions, with_aiokafka = rate // 7, rate // 10
        self._rates = {
            "librdkafka_writer": ("librdkafka-1", "steady", rate - in_transactions - with_aiokafka),
            "aiokafka_writer": ("aiokafka-2", "other", with_aiokafka),
            "transactional_writer": ("transactional-3", "ledger", in_transactions),
        }
        self.writers: list[Client] = []
        self.readers: list[Client] = []
        self._final: list[Client] = []

    @property
    def clients(self) -> list[Client]:
        return [*self.writers, *self.readers, *self._final]

    @property
    def acknowledged(self) -> int:
        return sum(one.acknowledged for one in self.writers)

    async def start(self) -> None:
        for program, (name, topic, rate) in self._rates.items():
            task = Task(name, self._bootstrap, self.journals, {topic: TOPICS[topic]}, rate)
            self.writers.append(await self._launch(program, task))
        for mode, name in (("live", "live"), ("group", "member-a"), ("guest", "member-b")):
            task = Task(name, self._bootstrap, self.journals, TOPICS)
            self.readers.append(await self._launch("reader", task, mode, self._group_protocol))

    async def finish_writers(self) -> None:
        await asyncio.gather(*(one.finish() for one in self.writers))

    async def finish_readers(self) -> None:
        await asyncio.gather(*(one.finish(self._ends()) for one in self.readers))

    def _ends(self) -> dict[str, dict[str, int]]:
        topics = [topic for _, topic, _ in self._rates.values()]
        return {topic: writer.ends for topic, writer in zip(topics, self.writers, strict=True)}

    async def read_everything(self) -> None:
        """Read everything from the start with new consumers."""
        halves = [{"steady": TOPICS["steady"]}, {name: count for name, count in TOPICS.items() if name != "steady"}]
        for number, topics in enumerate(halves):
            task = Task(f"final-{number}", self._bootstrap, self.journals, topics)
            self._final.append(await self._launch("reader", task, "final", "classic"))
        await asyncio.gather(*(one.finish(self._ends(), 10 * FINISH_S + _GRACE_S) for one in self._final))

    def close(self) -> None:
        for client in self.clients:
            client.kill()

    async def _launch(self, program: str, task: Task, *words: str) -> Client:
        path = self._folder / f"{task.name}.log"
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"verify.chaos.{program}", *words, *task.arguments()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LINE_BYTES,
                start_new_session=True,
            )
        client = Client(task.name, process, path)
        client.listen()
        return client
