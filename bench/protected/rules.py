"""Qanat with 10,000 rules, by turns with Qanat without an authorizer: what rules cost.

Without TLS, which would hide it: TLS takes a large part of the time of a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, ResourceType  # type: ignore[attr-defined]

from bench.clients import Client
from bench.protected.servers import OPEN, Secrets, own_rules, qanat, rule
from bench.protected.workloads import single
from bench.rounds import Rounds, Show
from bench.workloads.form import Workload, cpu, rate
from bench.workloads.settings import BATCHED, READING_ON, UNFLUSHED
from qanat.app.bench.figures import Row

RULES = 10_000
KEPT, KEPT_GOAL = 0.9, 0.97
_USERS = 100
_UNRULED = {"authorizer.class.name": "", "super.users": ""}
_FIGURES = (rate(KEPT, KEPT_GOAL), cpu())
# Each sample takes seconds: in one of 0.4 s, the start of the consumer and a busy moment of the machine hid the rules.
WORKLOADS = (
    single(300_000, KEPT, KEPT_GOAL),
    Workload("produce-100", "produce 100 B", "produce", 100, 4_000_000, _FIGURES, BATCHED, UNFLUSHED),
    Workload(
        "consume-100", "consume 100 B", "consume", 100, 6_000_000, _FIGURES, READING_ON, UNFLUSHED, is_filled=True
    ),
)


def many_rules(count: int = RULES) -> list[AclBinding]:
    """Rules of a hundred users, half of them for a prefix, and last those of the client."""
    own = own_rules()
    others = (
        rule(f"user-{at % _USERS}", AclOperation.WRITE, ResourceType.TOPIC, f"topic-{at}", is_prefix=bool(at % 2))
        for at in range(count - len(own))
    )
    return [*others, *own]


def measure(
    kept: Secrets, client: Client, rounds: int, folder: Path, show: Show, *, is_quick: bool
) -> Iterator[list[Row]]:
    """The throughput with rules, and what it is of that without; shorter samples spread by more than is judged."""
    ruled = qanat(kept, OPEN, rules=many_rules())
    unruled = qanat(kept, OPEN, _UNRULED, rules=[], name="Qanat without an authorizer")
    turns = Rounds(ruled, unruled, rounds, folder / "rules", show, is_judged=True)
    with turns.both(client.protected(kept.client(OPEN))) as pair:
        for workload in WORKLOADS[:1] if is_quick else WORKLOADS:
            renamed = replace(workload, name=f"rules-{workload.name}", what=f"{RULES:,} rules: {workload.what}")
            yield turns.measure(renamed, pair)
