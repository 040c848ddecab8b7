"""The conductor of a run over a backlog: fills, runs the command, kills with -9, restarts, compares."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tools.backlog.filling import Filled, fill
from tools.backlog.measurements import AFTER_MS, SPAN_MS, Backlog
from tools.spark_processes import descendants

from qanat.model import dead_letters
from verify.restart.kill import BrokerProcess
from verify.spark_backlog.copies import lake_problems, topic_problems
from verify.spark_backlog.peak_memory import PeakMemory
from verify.spark_backlog.windows import (
    HOUR_MS,
    QUANTILE_ERROR,
    expected,
    from_lake,
    from_topic,
    read_topic,
    window_problems,
)

Show = Callable[[str], None]
TOPIC = "metrics.inbound"
PIPELINES = ("metrics", "archive", "mirror")
VICTIMS = ("driver", "broker", "Java", "worker")
_WITHOUT_PROGRESS_S = 1800.0
_RESTARTS_MAX = 10
_LAG = re.compile(r"^\S+: batch .*? lag ([\d,]+)", re.MULTILINE)


@dataclass
class Outcome:
    """The kills, the figures, and the problems."""

    records: int = 0
    fill_s: float = 0.0
    run_s: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    peaks_mb: dict[str, float] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Command:
    """`qanat pipeline run`, started again and again with the same words."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self._words = [sys.executable, "-m", "qanat.app", "pipeline", "run", *words]
        self._folder = folder
        self._number = 0
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        self._number += 1
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._words, stdout=log, stderr=log, cwd=self._folder, env=environment, start_new_session=True
            )

    @property
    def log(self) -> Path:
        return self._folder / f"run-{self._number}.log"

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def lag(self) -> int | None:
        """The records that the last micro-batch left."""
        found = _LAG.findall(self.said)
        return int(found[-1].replace(",", "")) if found else None

    def kill(self) -> None:
        """Kill it with all its processes, with -9."""
        below = descendants(self.process.pid)
        for pid in (self.process.pid, *below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def run_over_backlog(
    folder: Path, pipeline: str, records: int, kills: int, seed: int, show: Show = lambda _: None
) -> Outcome:
    """Run a pipeline over so many records, and kill so many processes on the way."""
    now_ms = int(time.time() * 1000)
    backlog = Backlog(records, (now_ms - SPAN_MS - AFTER_MS) // HOUR_MS * HOUR_MS - HOUR_MS, seed)
    outcome = Outcome()
    names = ("source", "target")[: 1 + (pipeline == "mirror")]
    # The default keeps 1 GiB of each partition, less than a large backlog.
    brokers = [BrokerProcess(_made(folder / name), ("log.retention.bytes=-1",)) for name in names]
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.kill)
            broker.start()
        began = time.monotonic()
        filled = fill(brokers[0].address, TOPIC, backlog, show)
        outcome.records, outcome.fill_s = filled.records, time.monotonic() - began
        show(f"{filled.records:,} records in {outcome.fill_s:.0f} s; starting {pipeline}")
        command = Command(folder, _words(pipeline, [broker.address for broker in brokers]))
        with PeakMemory() as memory:
            began = time.monotonic()
            command.start()
            stack.callback(lambda: command.kill())
            _run(command, brokers, filled.records, [VICTIMS[one % len(VICTIMS)] for one in range(kills)], outcome, show)
            outcome.run_s = time.monotonic() - began
        outcome.peaks_mb = memory.peaks_mb
        show(f"{outcome.run_s:.0f} s; comparing")
        _compare(folder, pipeline, [broker.address for broker in brokers], backlog, filled, outcome)
    return outcome


def _words(pipeline: str, addresses: list[str]) -> list[str]:
    words = [pipeline, "--available-now", "-b", addresses[0]]
    if pipeline == "metrics":
        return words
    words += ["--topics", TOPIC]
    return words if pipeline == "archive" else [*words, "--to", addresses[1]]


def _run(
    command: Command, brokers: list[BrokerProcess], records: int, victims: list[str], outcome: Outcome, show: Show
) -> None:
    """Wait for the end; each process is killed when its share of the backlog is done."""
    random = Random(records)
    waiting = [(records - records * (number + 1) // (len(victims) + 1), one) for number, one in enumerate(victims)]
    last, changed = None, time.monotonic()
    while True:
        code = command.process.poll()
        if code == 0:
            break
        if code is not None:
            outcome.kills["command gave up"] += 1
            if outcome.kills["command gave up"] > _RESTARTS_MAX:
                raise RuntimeError(f"the pipeline cannot continue: {command.said[-3000:]}")
            outcome.problems.append(f"the command ended with {code} and was started again: {command.said[-400:]}")
            show(outcome.problems[-1])
            command.start()
        lag = command.lag()
        if lag != last:
            last, changed = lag, time.monotonic()
            if lag is not None:
                show(f"lag {lag:,}: {command.said.splitlines()[-1][:150]}")
        elif time.monotonic() - changed > _WITHOUT_PROGRESS_S:
            raise RuntimeError(f"the pipeline makes no progress: {command.said[-3000:]}")
        if waiting and lag is not None and lag <= waiting[0][0]:
            time.sleep(random.uniform(0.0, 3.0))
            victim = waiting.pop(0)[1]
            show(f"killing the {victim} with -9")
            _kill(victim, command, brokers, random, outcome)
        time.sleep(0.2)
    outcome.problems += [f"the {one} was not killed: the run was over" for _, one in waiting]


def _kill(victim: str, command: Command, brokers: list[BrokerProcess], random: Random, outcome: Outcome) -> None:
    outcome.kills[victim] += 1
    if victim == "driver":
        command.kill()
        command.start()
        return
    if victim == "broker":
        broker = brokers[-1]
        broker.kill()
        time.sleep(random.uniform(0.0, 1.0))
        broker.start()
        return
    mark = {"Java": "pyspark-shell", "worker": "pyspark.daemon"}[victim]
    found = sorted(pid for pid, line in descendants(command.process.pid).items() if mark in line)
    if not found:
        outcome.problems.append(f"there was no {victim} to kill")
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(found[-1], signal.SIGKILL)


def _compare(
    folder: Path, pipeline: str, addresses: list[str], backlog: Backlog, filled: Filled, outcome: Outcome
) -> None:
    if pipeline == "mirror":
        outcome.problems += topic_problems(addresses[1], TOPIC, filled.partitions)
        return
    if pipeline == "archive":
        outcome.problems += lake_problems(str(folder / "lake" / "archive"), filled.partitions)
        return
    wanted = expected(backlog)
    found = from_topic(addresses[0], "metrics.rollup", outcome.problems)
    problems, error = window_problems("topic", found, wanted, QUANTILE_ERROR)
    outcome.problems += problems
    outcome.seen.append(f"{len(found):,} windows, quantiles within {error:.2%}")
    in_lake = from_lake(folder / "lake" / "metrics", outcome.problems)
    outcome.problems += window_problems("lake", in_lake, found, 0.0)[0]
    _compare_dead(addresses[0], filled, outcome)


def _compare_dead(address: str, filled: Filled, outcome: Outcome) -> None:
    dead = read_topic(address, "metrics.dead")
    late = sum(headers[dead_letters.MESSAGE].startswith(b"late") for _, headers in dead)
    outcome.seen.append(f"{len(dead) - late:,} broken and {late:,} late records in metrics.dead")
    if (len(dead) - late, late) != (filled.broken, filled.late):
        outcome.problems.append(f"metrics.dead: {filled.broken:,} broken and {filled.late:,} late were sent")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
