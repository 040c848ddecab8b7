"""Offset lookup: the driver's blocking client for partitions, their offsets and the positions of groups."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from qanat.connection.batch_sizes import SizedBatch, batch_sizes
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.committed import commit_offsets, committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.offsets import list_offsets
from qanat.connection.sizes import partition_bytes
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import PIPELINES_TOPIC
from qanat.spark.offsets import EARLIEST, LATEST, Bound, OffsetRange, Offsets, OffsetsError
from qanat.spark.options.option_reader import OptionError
from qanat.spark.options.options import Access, Subscription
from qanat.spark.reads.trigger_bytes import cut_by_bytes

Result = TypeVar("Result")


class UnknownTopicError(QanatError):
    """A topic or partition of a query that does not exist."""


class Lookups:
    """A client of a cluster for a caller without an event loop. `close` it, or use it in a `with`."""

    def __init__(self, access: Access, *, is_committed_only: bool = True) -> None:
        self._access = access
        self._is_committed_only = is_committed_only
        self._runner = asyncio.Runner()
        self._cluster = cluster_of(access)

    def __enter__(self) -> Lookups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._cluster.__aexit__(None, None, None))
        self._runner.close()

    def run(self, work: Callable[[Cluster, Deadline], Awaitable[Result]]) -> Result:
        """Run a coroutine with the cluster, within the timeout of the options."""

        async def bounded() -> Result:
            return await work(self._cluster, self._cluster.deadline())

        return self._runner.run(bounded())

    def partitions(self, subscription: Subscription, *, may_be_gone: bool = False) -> list[TopicPartition]:
        """The partitions of a subscription, in order; raises where a named topic does not exist.

        With `may_be_gone`, and always for a pattern, it skips topics that do not exist.
        """
        if subscription.pattern is not None:
            names = [name for name in self._topics() if re.fullmatch(subscription.pattern, name)]
            may_be_gone = True
        else:
            names = sorted({*subscription.names, *(at.topic for at in subscription.assigned)})
        found: list[TopicPartition] = []
        for name in names:
            try:
                view = self.run(lambda cluster, deadline, name=name: cluster.topic(name, deadline))  # type: ignore[misc]
            except RefusedError as fault:
                if may_be_gone and fault.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                raise
            found += [TopicPartition(name, number) for number in view.leaders]
        missing = subscription.assigned - set(found)
        if missing and not may_be_gone:
            raise UnknownTopicError("there is no partition " + ", ".join(map(str, sorted(missing))))
        return [at for at in found if subscription.takes(at)]

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets_at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends: the high watermark, or the last stable offset where only committed records are read."""
        return self._offsets_at(dict.fromkeys(partitions, LATEST))

    def at(self, bound: Bound, partitions: list[TopicPartition], group: str | None, what: str) -> Offsets:
        """The offset of a bound in each partition; `what` names its option in errors."""
        match bound.kind:
            case "earliest":
                return self.earliest(partitions)
            case "latest":
                return self.latest(partitions)
            case "group":
                return self._group_offsets(group or "", partitions)
            case "offsets":
                _require_every(bound.by_partition, partitions, what, "Use -1 for latest, -2 for earliest.")
                words = {at: offset for at, offset in bound.by_partition.items() if offset < 0}
                return {**bound.by_partition, **self._offsets_at(words)}
            case "timestamp":
                return self._at_times(dict.fromkeys(partitions, bound.timestamp), bound, what)
            case "timestamps":
                _require_every(bound.by_partition, partitions, f"{what}ByTimestamp", "")
                return self._at_times(dict(bound.by_partition), bound, what)

    def bytes_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The size of the logs of these partitions."""
        wanted = set(partitions)
        return self.ask(lambda cluster, deadline: partition_bytes(cluster, wanted, deadline))

    def cut_by_bytes(self, start: Offsets, end: Offsets, max_bytes: int) -> Offsets:
        """The end of a micro-batch of at most so many bytes, from the sizes of its batches."""

        async def cut(cluster: Cluster, deadline: Deadline) -> Offsets:
            async def look(wanted: OffsetRange, share: int) -> list[SizedBatch]:
                return await batch_sizes(cluster, wanted.at, wanted.start, wanted.end, share, deadline)

            return await cut_by_bytes(start, end, max_bytes, look)

        return self.run(cut)

    def commit(self, group: str, offsets: Offsets) -> None:
        self.run(lambda cluster, deadline: commit_offsets(cluster, group, offsets, deadline))

    def _topics(self) -> list[str]:
        """The topics that a pattern may match: internal ones are read by name only."""
        found = self.ask(lambda cluster, deadline: cluster.metadata(None, deadline))
        return sorted(
            topic.name
            for topic in found.topics
            if topic.name and not topic.is_internal and topic.name != PIPELINES_TOPIC
        )

    def ask(self, question: Callable[[Cluster, Deadline], Awaitable[Result]]) -> Result:
        """Ask, and retry while a broker restarts or a leader moves, within the timeout of the options."""
        return self.run(lambda cluster, deadline: cluster.persist(lambda: question(cluster, deadline), deadline))

    def _group_offsets(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        """The committed offsets of a group, or the first offset of partitions without one."""
        known = self.run(lambda cluster, deadline: committed_offsets(cluster, group, deadline, only=partitions))
        return {**self.earliest(at for at in partitions if at not in known), **known}

    def _at_times(self, times: dict[TopicPartition, int], bound: Bound, what: str) -> Offsets:
        found = self._offsets_at(times)
        late = sorted(at for at, offset in found.items() if offset < 0)
        if late and bound.if_too_late == "error":
            named = ", ".join(f"{at} (from {times[at]} ms)" for at in late)
            raise OffsetsError(
                f"{what} by timestamp: no record is that late in {named}; an earlier time, or "
                "startingOffsetsByTimestampStrategy=latest, lets the query start"
            )
        return {**found, **self.latest(late)}

    def _offsets_at(self, timestamps: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        topics: dict[str, dict[int, int]] = {}
        for at, timestamp in timestamps.items():
            topics.setdefault(at.topic, {})[at.partition] = timestamp
        committed = self._is_committed_only

        async def ask(cluster: Cluster, deadline: Deadline) -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for topic, wanted in sorted(topics.items()):
                answers = await list_offsets(cluster, topic, wanted, deadline, is_committed_only=committed)
                found |= {TopicPartition(topic, number): answer.offset for number, answer in answers.items()}
            return found

        return self.run(ask) if topics else {}


def cluster_of(access: Access, reach_timeout_s: float = 0.0) -> Cluster:
    """A client of the cluster in the options; `reach_timeout_s` is how long it retries the first connection."""
    try:
        return Cluster(
            parse_bootstrap(access.bootstrap), access.client_id, access.timeout_s, access.security, reach_timeout_s
        )
    except ValueError as fault:
        raise OptionError(f"option kafka.bootstrap.servers is {access.bootstrap!r}: {fault}") from None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the event loop: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _require_every(given: Offsets, partitions: list[TopicPartition], what: str, hint: str) -> None:
    if set(given) != set(partitions):
        raise OffsetsError(
            f"{what} must name every partition that is read and no other. {hint} "
            f"Given: {_listed(given)}; read: {_listed(partitions)}".replace("  ", " ")
        )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
