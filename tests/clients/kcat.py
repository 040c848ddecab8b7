"""kcat: the command-line client on librdkafka; Debian's stands on an old one (2.0.2), which is what it is here for."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Sequence

from tests.clients.capabilities import CODECS, Progress
from tools.toolchains.kcat import have_kcat

SECONDS = 60
_ASSIGNED = re.compile(r"(\[\d+\])")


class KcatMember:
    """A process of its own; what it prints is taken up by threads."""

    def __init__(self, command: list[str], group: str, topic: str) -> None:
        options = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=50", "-X", "fetch.wait.max.ms=20"]
        self._process = subprocess.Popen(
            [*command, "-u", *options, "-G", group, topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._values: list[str] = []
        self._assigned: set[int] = set()
        self._threads = [threading.Thread(target=target) for target in (self._take_values, self._take_events)]
        for thread in self._threads:
            thread.start()
        self._moment = threading.Event()

    def _take_values(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._values.append(line.rstrip("\n"))

    def _take_events(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "rebalanced" in line:
                numbers = {int(found.strip("[]")) for found in _ASSIGNED.findall(line)}
                self._assigned = numbers if "assigned: " in line else self._assigned - numbers

    def pump(self) -> Progress:
        self._moment.wait(0.02)
        values, self._values = self._values, []
        return Progress(set(self._assigned), values)

    def commit(self) -> None:
        """kcat commits when it leaves."""

    def leave(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


class Kcat:
    codecs = CODECS

    def __init__(self, address: str) -> None:
        self._program = str(have_kcat())
        self._command = [self._program, "-q", "-b", address, "-X", "log_level=0"]
        self._loud = [self._program, "-b", address]

    @property
    def version(self) -> str:
        shown = subprocess.run(
            [self._program, "-V"], capture_output=True, text=True, check=False, timeout=SECONDS
        ).stdout
        kcat, librdkafka = re.search(r"Version ([\d.]+)", shown), re.search(r"librdkafka ([\d.]+)", shown)
        return f"{kcat[1] if kcat else '?'} (librdkafka {librdkafka[1] if librdkafka else '?'})"

    def _run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-1000:]
        return done.stdout

    def create(self, topic: str, partitions: int) -> None:
        """By naming it; the number of partitions is the broker's."""
        self._run("-L", "-t", topic, "-X", "allow.auto.create.topics=true")

    def describe(self, topic: str) -> int:
        return len(re.findall(r"^ +partition \d+, leader", self._run("-L", "-t", topic), re.MULTILINE))

    def delete(self, topic: str) -> None:
        raise NotImplementedError

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        options = ["-X", f"acks={acks}", "-X", "linger.ms=20", "-z", codec]
        self._run("-P", "-t", topic, "-p", "0", *options, text="".join(value + "\n" for value in values))

    def read(self, topic: str, offset: int, count: int) -> list[str]:
        return self._run("-C", "-t", topic, "-p", "0", "-o", str(offset), "-c", str(count)).splitlines()

    def offset_at(self, topic: str, timestamp: int) -> int:
        shown = self._run("-Q", "-t", f"{topic}:0:{timestamp}")
        found = re.search(r"offset (-?\d+)", shown)
        assert found is not None, shown[-500:]
        return int(found[1])

    def join(self, group: str, topic: str) -> KcatMember:
        return KcatMember(self._loud, group, topic)

    def close(self) -> None:
        """Every command has ended."""
