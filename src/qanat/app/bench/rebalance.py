"""`qanat bench rebalance`: how long a group needs to settle after members join and leave.

The members are real consumers. A group has settled when one member reads every partition, and every member that can
have a partition has one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qanat.app.bench.clients.librdkafka_properties import check_properties, clients_of, consumer_properties
from qanat.app.bench.clients.options import DEFAULT_REPORT, Report, at_least
from qanat.app.bench.clients.result import Plot, Result, Sheet, settings_of
from qanat.app.bench.clients.result_output import show
from qanat.app.bench.clients.temporary_topic import (
    BROKERS_DEFAULT,
    TopicInUse,
    delete_group,
    fresh_name,
    topic_in_use,
)
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.plot import numbers
from qanat.app.terminal.progress import status_line
from qanat.app.terminal.standard_streams import print_error
from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_CALM_S = 0.3
"""How long a group must stay settled before the next change, so that the two do not overlap."""
_LOOK_EVERY_S = 0.002


class NotSettledError(QanatError):
    """A group did not settle in time."""


def rebalance(
    *,
    members: Annotated[int, Parameter(name=["--members", "-m"])] = 10,
    partitions: Annotated[int | None, Parameter(name=["--partitions", "-p"])] = None,
    rounds: int = 3,
    protocol: Literal["classic", "consumer"] = "classic",
    settle_timeout: Annotated[float, Parameter(name=["--settle-timeout", "--patience"])] = 60.0,
    output: Report = DEFAULT_REPORT,
    target: Target = HERE,
) -> int:
    """Measure how long a consumer group needs to settle after members join and leave.

    All members join at once; then one more joins, then one leaves, then half of them. Members learn of a change by
    their next heartbeat: -X heartbeat.interval.ms=500 shows how much of the time that is. Topic and group are
    temporary.

        qanat bench rebalance --members 20 --rounds 5
        qanat bench rebalance -b kafka:9092 --protocol consumer --html rebalance.html

    Parameters
    ----------
    members:
        How many join at once.
    partitions:
        Partitions of the topic. Default: two for each member.
    rounds:
        Number of repetitions; medians count.
    protocol:
        `classic`, or `consumer` for the new one (KIP-848).
    settle_timeout:
        Seconds that a group may take to settle.
    """
    at_least("--members", members, 1, 2000)
    at_least("--rounds", rounds, 1, 1000)
    count = 2 * members if partitions is None else partitions
    at_least("--partitions", count, 1, 100_000)
    if not 0 < settle_timeout <= 3600:
        raise WrongArgumentError(f"--settle-timeout {settle_timeout:g}: write seconds, above 0 and at most 3600")
    output.check()
    clients = clients_of(target)
    settings = {**consumer_properties(clients, fresh_name()), "group.protocol": protocol}
    check_properties(settings, "consumer")
    took: dict[str, list[float]] = {}
    complaints: list[str] = []
    is_interrupted = False
    with (
        topic_in_use(clients.target, None, count, BROKERS_DEFAULT) as topic,
        status_line("rebalancing: ") as report_progress,
    ):
        try:
            for number in range(rounds):
                with _group(settings, topic, clients.target, settle_timeout) as group:
                    for what, seconds in group.changes(members):
                        took.setdefault(what, []).append(seconds)
                        report_progress(f"round {number + 1} of {rounds}, {what}")
        except KeyboardInterrupt:
            is_interrupted = True
        except NotSettledError as fault:
            complaints.append(str(fault))
    shown_settings = {"members": members, "partitions": count, "rounds": rounds, "protocol": protocol}
    result = Result(
        "rebalance",
        {"changes": [_figures(what, seconds) for what, seconds in took.items()]},
        [
            Sheet(
                ("change", "median", "fastest", "slowest", "rounds"), [_cells(what, its) for what, its in took.items()]
            )
        ],
        _plots(took),
        settings_of(clients, shown_settings),
        complaints=complaints,
        was_interrupted=is_interrupted,
    )
    return show(result, output)


@contextmanager
def _group(settings: dict[str, str], topic: TopicInUse, target: Target, timeout_s: float) -> Iterator[_Group]:
    """A temporary group whose coordinator is known; deleted afterwards."""
    name = fresh_name()
    run(target, lambda cluster: cluster.coordinator_link(name, cluster.deadline()))
    group = _Group({**settings, "group.id": name}, topic, timeout_s)
    try:
        yield group
    finally:
        group.close()
        try:
            run(target, lambda cluster: delete_group(cluster, name))
        except QanatError as fault:
            print_error(f"the temporary group may still exist ({fault}): qanat group delete {name} --yes")


class _Group:
    """Members of a group, polled by one thread; they process no records."""

    def __init__(self, settings: dict[str, str], topic: TopicInUse, timeout_s: float) -> None:
        self._settings = settings
        self._topic = topic
        self._timeout_s = timeout_s
        self._members: list[Consumer] = []

    def changes(self, count: int) -> Iterator[tuple[str, float]]:
        """Each change, and the seconds until the group has settled."""
        yield f"{count} join at once", self._settled(lambda: self._join(count))
        self._stay_calm()
        yield "one more joins", self._settled(lambda: self._join(1))
        self._stay_calm()
        yield "one leaves", self._settled(lambda: self._leave(1))
        self._stay_calm()
        half = count // 2
        if half:
            yield f"{half} leave", self._settled(lambda: self._leave(half))

    def close(self) -> None:
        """Close all members; the topic is deleted anyway, so no last rebalance is awaited."""
        for member in self._members:
            member.close()
        self._members.clear()

    def _join(self, count: int) -> None:
        from confluent_kafka import Consumer

        for _ in range(count):
            member = Consumer(self._settings)
            member.subscribe([self._topic.name])
            self._members.append(member)

    def _leave(self, count: int) -> None:
        leaving, self._members = self._members[:count], self._members[count:]
        for member in leaving:
            member.close()

    def _settled(self, change: Callable[[], None]) -> float:
        began_s = time.monotonic()
        change()
        while not self._is_settled():
            if time.monotonic() - began_s > self._timeout_s:
                raise NotSettledError(
                    f"{len(self._members)} members were not settled after {self._timeout_s:g} s: {self._state()}"
                )
            time.sleep(_LOOK_EVERY_S)
        return time.monotonic() - began_s

    def _stay_calm(self) -> None:
        """Wait until the assignment is stable; a late change belongs to the change before."""
        calm_since_s = began_s = time.monotonic()
        while time.monotonic() - calm_since_s < _CALM_S and time.monotonic() - began_s < self._timeout_s:
            if not self._is_settled():
                calm_since_s = time.monotonic()
            time.sleep(_LOOK_EVERY_S)

    def _is_settled(self) -> bool:
        held = [self._held(member) for member in self._members]
        is_fair = sum(1 for own in held if own) == min(len(held), self._topic.partitions)
        everything = sorted(partition for own in held for partition in own)
        return is_fair and everything == list(range(self._topic.partitions))

    def _held(self, member: Consumer) -> list[int]:
        member.poll(0)
        return [one.partition for one in member.assignment()]

    def _state(self) -> str:
        held = [self._held(member) for member in self._members]
        read = {partition for own in held for partition in own}
        return f"{len(read)} of {self._topic.partitions} partitions are read, {sum(map(bool, held))} members read"


def _figures(what: str, seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "change": what,
        "median_s": round(statistics.median(seconds), 4),
        "fastest_s": round(min(seconds), 4),
        "slowest_s": round(max(seconds), 4),
        "seconds": [round(one, 4) for one in seconds],
    }


def _cells(what: str, seconds: Sequence[float]) -> tuple[str, ...]:
    middle = statistics.median(seconds)
    return (what, *(f"{one:,.3f} s" for one in (middle, min(seconds), max(seconds))), str(len(seconds)))


def _plots(took: dict[str, list[float]]) -> list[Plot]:
    lines = {what: [(float(number), one) for number, one in enumerate(its, 1)] for what, its in took.items()}
    return [Plot("Seconds until the group has settled", lines, "round", numbers)] if lines else []
