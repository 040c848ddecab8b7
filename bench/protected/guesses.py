"""Synchronous produce while another address guesses passwords, by turns with quiet runs.

The honest client has TLS. Guesses go to a second listener of the same broker, without TLS: a thousand handshakes a
second would be the load, not the guesses.

The guesser takes a sixth of a processor for itself, and honest client and broker share the machine with it. In a quiet
run it therefore guesses too, at a server beside the broker that closes each connection at once: what is compared is
what guesses cost the broker's clients, not what another process costs them. A run without any guesser is shown too.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.servers import Running, free_port

from bench.clients import Client, Task
from bench.protected.servers import Secrets, qanat
from bench.rounds import Show
from bench.workloads.settings import AT_ONCE, UNFLUSHED
from qanat.app.bench.figures import Limit, Required, Row, row

GUESSES_PER_SECOND = 1_000
EVALUATED_MOST = 10.0
_ATTACKER = "127.0.0.2"
_BEFORE_S = 0.5
"""Guesses go on for so long before the honest client is measured: the first ones are evaluated by design."""
_TOPIC = "guesses"
_COUNT, _QUICK_COUNT = 6_000, 2_000
_FEWEST_ROUNDS = 11
"""The slowest of fewer quiet runs says little about their spread."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What one run with guesses has found."""

    p99_ms: float
    sent_per_second: float
    evaluated_per_second: float


def measure(kept: Secrets, client: Client, rounds: int, folder: Path, show: Show, *, is_quick: bool) -> list[Row]:
    guessed, metrics = f"127.0.0.1:{free_port()}", free_port()
    count = _QUICK_COUNT if is_quick else _COUNT
    alone: list[float] = []
    quiet: list[float] = []
    attacks: list[Attack] = []
    settings = {"metrics.port": str(metrics)}
    with (
        qanat(kept, settings=settings, second=guessed).running(folder / "guesses") as running,
        _sink() as elsewhere,
    ):
        honest = client.protected(kept.client())
        honest.run(running.address, Task("create", _TOPIC, settings=UNFLUSHED))
        for number in range(max(rounds, _FEWEST_ROUNDS) + 1):
            show(f"guesses, round {number}" if number else "guesses, warming up")
            undisturbed = _p99(honest, running, count)
            calm = _attacked(honest, running, count, elsewhere, metrics).p99_ms
            attack = _attacked(honest, running, count, guessed, metrics)
            if number:
                alone.append(undisturbed)
                quiet.append(calm)
                attacks.append(attack)
    return _rows(alone, quiet, attacks)


def _p99(honest: Client, running: Running, count: int) -> float:
    return honest.run(running.address, Task("sync", _TOPIC, 100, count, settings=AT_ONCE))["p99_ms"]


def _attacked(honest: Client, running: Running, count: int, guessed: str, metrics: int) -> Attack:
    with _guesses(guessed) as guesser:
        time.sleep(_BEFORE_S)
        before, began = _evaluated(metrics), time.perf_counter()
        p99 = _p99(honest, running, count)
        evaluated = (_evaluated(metrics) - before) / (time.perf_counter() - began)
        found = json.loads(guesser.communicate()[0])
    return Attack(p99, found["sent"] / found["seconds"], evaluated)


@contextlib.contextmanager
def _guesses(address: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.protected.guessing", address, _ATTACKER, str(GUESSES_PER_SECOND)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guesser:
        try:
            assert guesser.stdout is not None
            guesser.stdout.readline()
            yield guesser
        finally:
            guesser.kill()


@contextlib.contextmanager
def _sink() -> Iterator[str]:
    """The address of a server that closes each connection at once."""
    command = [sys.executable, "-m", "bench.protected.sink"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sink:
        try:
            assert sink.stdout is not None
            yield f"127.0.0.1:{int(sink.stdout.readline())}"
        finally:
            sink.kill()


def _evaluated(metrics: int) -> float:
    """Guesses whose password was looked at, so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(one.split()[-1]) for one in lines if one.startswith("qanat_authentications_failed_total"))


def _rows(alone: list[float], quiet: list[float], attacks: list[Attack]) -> list[Row]:
    slowest = Limit([max(quiet)] * len(quiet), f"slowest of {len(quiet)} runs with the guesses sent elsewhere")
    within = Required("ratio", "<=", 1.0)
    most = Required("ours", "<=", EVALUATED_MOST)
    about = f"{GUESSES_PER_SECOND:,} login guesses/s from one address"
    return [
        row("guesses", f"{about}: sent", "guesses/s", [one.sent_per_second for one in attacks]),
        row(
            "guesses", f"{about}: evaluated", "guesses/s", [one.evaluated_per_second for one in attacks], required=most
        ),
        row(
            "guesses",
            f"{about}: synchronous produce of others, p99",
            "ms",
            [one.p99_ms for one in attacks],
            slowest,
            within,
        ),
        row("guesses", "synchronous produce, guesses sent elsewhere, p99", "ms", quiet),
        row("guesses", "synchronous produce without a guesser, p99", "ms", alone),
    ]
