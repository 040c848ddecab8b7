"""Loads on both sides: batches in and out by one client and by a hundred, and requests of one record."""

from __future__ import annotations

from dataclasses import replace

from bench.workloads.form import Figure, Workload, at_most, cpu, cpu_per_gb, rate
from bench.workloads.settings import BATCHED, KIB, ONE_BY_ONE, READING_ON, UNFLUSHED

RATE, RATE_GOAL = 1.0, 1.3
SINGLE, SINGLE_GOAL = 2.0, 3.0
CPU, CPU_GOAL = 1.0, 0.7
CLIENTS = 100
_RECORDS = {100: 100, KIB: 50}
"""Of one request of one of many clients, by size."""


def _cpu_in(size: int) -> Figure:
    what = "broker CPU per GB in"
    return Figure(what, "s", lambda sample: sample.cpu_seconds_per_gb(size), at_most(CPU), at_most(CPU_GOAL))


def _label(size: int) -> str:
    return f"{size // KIB} KB" if size >= KIB else f"{size} B"


def _names(verb: str, size: int, clients: int) -> tuple[str, str]:
    short = "1k" if size >= KIB else str(size)
    after = f", {clients} clients" if clients > 1 else ""
    prefix = f"{clients}-clients-" if clients > 1 else ""
    return f"{prefix}{verb}-{short}", f"{verb} {_label(size)}{after}"


def _produce(size: int, count: int, clients: int = 1) -> Workload:
    name, what = _names("produce", size, clients)
    figures = (rate(RATE, RATE_GOAL), _cpu_in(size))
    if clients == 1:
        return Workload(name, what, "produce", size, count, figures, BATCHED, UNFLUSHED)
    settings = {"driver.clients": str(clients), "driver.records": str(_RECORDS[size]), "driver.in_flight": "5"}
    return Workload(name, what, "clients", size, count, figures, settings, UNFLUSHED)


def _consume(size: int, count: int, clients: int = 1) -> Workload:
    name, what = _names("consume", size, clients)
    figures = (rate(RATE, RATE_GOAL), cpu_per_gb(size, CPU, CPU_GOAL))
    mode, settings = ("consume", READING_ON) if clients == 1 else ("readers", {"driver.clients": str(clients)})
    return Workload(name, what, mode, size, count, figures, settings, UNFLUSHED, is_filled=True)


def single(count: int, required: float, goal: float | None = None) -> Workload:
    """Requests of one record, up to a thousand in flight."""
    what = "single-record requests, pipelined"
    return Workload("single", what, "produce", 100, count, (rate(required, goal), cpu()), ONE_BY_ONE, UNFLUSHED)


WORKLOADS = (
    _produce(100, 700_000),
    _produce(KIB, 200_000),
    _consume(100, 1_000_000),
    _consume(KIB, 300_000),
    single(8_000, SINGLE, SINGLE_GOAL),
    _produce(100, 1_500_000, CLIENTS),
    _produce(KIB, 400_000, CLIENTS),
    _consume(100, 2_000_000, CLIENTS),
    _consume(KIB, 400_000, CLIENTS),
)
QUICK = ("produce-1k", "consume-1k")


def on_one_topic(workload: Workload) -> Workload:
    """The same without a new topic in each round: three processes of the client fewer, each with TLS."""
    return (
        workload if workload.is_filled else replace(workload, is_kept=True, topic={**workload.topic, "partitions": "1"})
    )
