"""`python -m bench.report.profiling`: where a broker's time goes while it is written to and read from.

A broker of its own is loaded as in `python -m bench`, and sampled from within (`sampled`) and, where perf is to be had,
from below (`kernel`). Its figures are shares; the rates of the report are not taken here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.servers import Server

from bench.clients import Client, Task, make_client
from bench.processes import cpu_seconds
from bench.report import kernel
from bench.workloads import AT_ONCE, BATCHED, KIB, ONE_BY_ONE, UNFLUSHED
from qanat import __version__
from qanat.app.bench import machine

_TOPIC = "profile"
_MOST_FUNCTIONS = 15
_WRITTEN_S = 20.0
_QUICK_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Load:
    """One load on a broker, long enough for some thousand samples."""

    name: str
    what: str
    mode: str
    size: int
    count: int
    client: dict[str, str]


LOADS = (
    Load("single", "single-record requests, pipelined: the produce path", "produce", 100, 400_000, ONE_BY_ONE),
    Load("sync", "one request after the other", "sync", 100, 80_000, AT_ONCE),
    Load("produce-1k", "batches of 1 KB messages: bytes in", "produce", KIB, 4_000_000, BATCHED),
    Load("consume-1k", "the same read again: the fetch path, bytes out", "consume", KIB, 4_000_000, {}),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile of one load: shares of the samples, largest first."""

    what: str
    samples: int
    cpu_us_per_message: float
    functions: dict[str, float]
    modules: dict[str, float]
    below: dict[str, float]


def profile_of(load: Load, seen: dict[str, int], cpu_us: float, below: dict[str, float]) -> Profile:
    whole = sum(seen.values()) or 1
    modules: dict[str, int] = {}
    for place, count in seen.items():
        name = place.partition(":")[0]
        modules[name] = modules.get(name, 0) + count
    return Profile(load.what, sum(seen.values()), cpu_us, _shares(seen, whole), _shares(modules, whole), below)


def _shares(counts: dict[str, int], whole: int) -> dict[str, float]:
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:_MOST_FUNCTIONS]
    return {name: count / whole for name, count in most}


def sampled_broker(folder: Path) -> Server:
    """A broker as its users start it, which writes its samples into `folder`."""

    def command(data: Path, port: int) -> list[str]:
        flags = ["--port", str(port), "--data-dir", str(data / "data"), "--log-level", "warning"]
        return [sys.executable, "-m", "bench.report.sampled", str(folder), "start", *flags]

    return Server("Qanat", __version__, command)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.report.profiling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the load")
    parser.add_argument("--json", type=Path, help="write what was found, after each load")
    asked = parser.parse_args(arguments)
    profiles: dict[str, Profile] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bench-profile-", dir=Path.cwd()) as name:
        folder = Path(name)
        client = make_client(folder)
        with sampled_broker(folder).running(folder / "broker") as running:
            for number, load in enumerate(LOADS):
                print(f"sampling {load.what}", file=sys.stderr, flush=True)
                count = int(load.count * _QUICK_SHARE) if asked.quick else load.count
                spent, below = _loaded(client, running.address, running.pid, load, count, folder)
                seen = _written(folder / f"samples-{number}.json")
                profiles[load.name] = profile_of(load, seen, spent * 1e6 / count, below.shares)
                notes += [f"Below the interpreter nothing was seen of {load.name}: {below.complaint}."] * bool(
                    below.complaint
                )
                _print(profiles[load.name])
                if asked.json is not None:
                    found = {"machine": machine.describe(folder), "settings": {"client": client.what}, "notes": notes}
                    shown = {name: asdict(one) for name, one in profiles.items()}
                    asked.json.write_text(json.dumps({**found, "profiles": shown}, indent=2, ensure_ascii=False) + "\n")
    return 0


def _loaded(client: Client, address: str, pid: int, load: Load, count: int, folder: Path) -> tuple[float, kernel.Perf]:
    """Run a load under perf; returns the broker's CPU seconds and the shares below Python."""
    spent: list[float] = []
    watching = contextlib.ExitStack()
    recorded: list[kernel.Perf] = []

    def on_go() -> None:
        recorded.append(watching.enter_context(kernel.recording(pid, folder)))
        spent.append(cpu_seconds(pid))
        os.kill(pid, signal.SIGUSR1)

    def on_end() -> None:
        os.kill(pid, signal.SIGUSR2)
        spent.append(cpu_seconds(pid))
        watching.close()

    topic = f"{_TOPIC}-{load.size}"
    if load.mode != "consume":
        client.run(address, Task("create", topic, settings=UNFLUSHED))
    client.run(address, Task(load.mode, topic, load.size, count, settings=load.client), on_go, on_end)
    if load.mode == "consume" or load.size < KIB:
        client.run(address, Task("delete", topic))
    return spent[1] - spent[0], recorded[0]


def _written(file: Path) -> dict[str, int]:
    deadline = time.monotonic() + _WRITTEN_S
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    seen: dict[str, int] = json.loads(file.read_text())
    return seen


def _print(profile: Profile) -> None:
    print(f"\n{profile.what}: {profile.samples} samples, {profile.cpu_us_per_message:.2f} µs a message")
    for name, share in profile.functions.items():
        print(f"  {share:6.1%}  {name}")
    print("  below: " + ", ".join(f"{name} {share:.0%}" for name, share in profile.below.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
