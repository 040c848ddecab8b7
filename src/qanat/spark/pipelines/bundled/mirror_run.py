"""A running mirror: topics at the target kept like those at the source, micro-batches copied, groups moved."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from qanat.model.ids import TopicPartition
from qanat.spark.copying.group_positions import put
from qanat.spark.copying.inventory import cluster_id, groups, topics
from qanat.spark.copying.ledger import Copy
from qanat.spark.copying.link import Link
from qanat.spark.copying.provision import provide
from qanat.spark.lake.commits import TopicState
from qanat.spark.offsets import Offsets, to_json
from qanat.spark.options.options import Access
from qanat.spark.pipelines.bundled.catalogue import How, Stages
from qanat.spark.pipelines.bundled.mirror import Wanted
from qanat.spark.pipelines.bundled.mirror_routes import Ways
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.micro_batches import Regularly, found, start, starting, throwaway
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_STAMPS = "message.timestamp.type"
"""At the target records keep the time that they have, whoever gave it to them."""


class Mirror:
    """What is copied, and what is known of it."""

    def __init__(self, source: Lookups, link: Link, ways: Ways, wanted: Wanted, staging: str) -> None:
        self._source = source
        self._ways = ways
        self._link = link
        self._wanted = wanted
        self._staging = staging
        self.copies: dict[str, Copy] = {}
        """By the names at the source."""
        self._followed: dict[str, TopicState] = {}
        self._turn = threading.RLock()
        """Batches and looks around take turns."""
        self.left_out: set[str] = set()
        """Topics that came from the target."""
        self._refused: set[str] = set()

    def provide(self) -> list[TopicPartition]:
        """Topics at the target as they should be; the partitions at the source that are copied."""
        with self._turn:
            chosen = found(self._source, self._wanted.subscription, self._wanted.shown)
            now = topics(self._source, {at.topic for at in chosen})
            if any(name not in self.copies for name in now):
                self._ways.learn()
            new: list[Copy] = []
            for name, state in now.items():
                way = self._ways.of(name, state)
                if way is None:
                    self.left_out.add(name)
                elif self._followed.get(name) != state:
                    new.append(self._provide_one(name, state, way))
                    self._followed[name] = state
            self._link.know(new)
            self.copies |= {one.source: one for one in new}
            return [at for at in chosen if at.topic in self.copies]

    def begin_at_the_end(self, chosen: list[TopicPartition]) -> None:
        """Keep where new partitions begin: a run in which nothing comes must not make the next one skip something."""
        known = self.positions()
        self._link.know(self.copies.values(), self._source.latest(at for at in chosen if at not in known))

    def _provide_one(self, name: str, state: TopicState, way: tuple[str, ...]) -> Copy:
        target = self._wanted.naming(name)
        lookups = self._link.lookups
        there = topics(lookups, [target]).get(target)
        if there is not None and name not in self.copies and self._link.copy_of(target, there) is None:
            self._check_free(target, there)
        settings = {key: value for key, value in state.settings.items() if key != _STAMPS}
        made = provide(lookups, target, state.partitions, settings)
        known = self.copies.get(name)
        if known is not None and known.id != made.id:
            raise PipelineError(
                f"topic {target} was deleted at the target while it was mirrored: start the mirror again"
            )
        return Copy(target, made.id, name, way)

    def _check_free(self, target: str, there: TopicState) -> None:
        places = [TopicPartition(target, number) for number in range(there.partitions)]
        first, end = self._link.lookups.earliest(places), self._link.lookups.latest(places)
        count = sum(end[at] - first[at] for at in places)
        if count:
            raise PipelineError(
                f"topic {target} is at the target already, with {count:,} records that are not this mirror's: mirror "
                "under other names (prefix, rename), or delete it first"
            )

    def take(self, frame: DataFrame) -> int:
        """A micro-batch is copied, unless it is; how many records were new."""
        from pyspark.sql import functions

        with self._turn:
            self.provide()
            ours = frame.where(functions.col("topic").isin(sorted(self.copies)))
            return self._link.copy(ours, self.copies, self._staging, self._wanted.compression)

    def look_around(self) -> None:
        """Settings, partitions and groups as they are at the source."""
        with self._turn:
            self.provide()
            self.move_groups()

    def move_groups(self) -> None:
        if self._wanted.groups is None:
            return
        stand = groups(self._source, self.copies, self._wanted.groups, [self._wanted.group])
        for name, positions in stand.items():
            told = put(self._link, name, positions, self.copies, is_forward_only=True)
            if told.is_refused and name not in self._refused:
                _log.warning("%s", told.text)
            (self._refused.add if told.is_refused else self._refused.discard)(name)

    def positions(self) -> Offsets:
        return self._link.ledger.positions(self.copies.values())


def mirror(spark: SparkSession, wanted: Wanted, how: How) -> Stages:
    """Runs until everything is copied, or until it is stopped."""
    with ExitStack() as stack:
        source = stack.enter_context(Lookups(how.access))
        origin, target = cluster_id(source), _cluster_id_at(wanted.to)
        ways = Ways(source, origin, target, wanted)
        _check_ways(source, ways, wanted)
        name = wanted.name or origin
        link = stack.enter_context(Link(wanted.to, f"qanat-mirror.{name}.offsets"))
        notes = stack.enter_context(throwaway(how.checkpoint))
        run = Mirror(source, link, ways, wanted, f"{notes}/staging")
        chosen = run.provide()
        if origin == target:
            run.left_out |= {one.topic for one in run.copies.values()}
        if wanted.start == "latest":
            run.begin_at_the_end(chosen)
        first = starting(chosen, run.positions(), wanted.start)
        query = start(
            spark,
            "mirror",
            _options(wanted, how, first, run.left_out),
            f"{wanted.every_s} seconds",
            how,
            f"{notes}/spark",
            run.take,
        )
        stack.callback(query.stop)
        regularly = stack.enter_context(Regularly("mirror of groups", wanted.follow_every_s, run.look_around))
        try:
            yield [query]
        finally:
            if query.exception() is None:
                query.stop()
                regularly.once()


def _cluster_id_at(access: Access) -> str:
    with Lookups(access) as lookups:
        return cluster_id(lookups)


def _check_ways(source: Lookups, ways: Ways, wanted: Wanted) -> None:
    """Say what cannot be mirrored before anything is created."""
    ways.learn()
    names = {at.topic for at in found(source, wanted.subscription, wanted.shown)}
    if all(ways.of(name, state) is None for name, state in topics(source, names).items()):
        raise PipelineError(f"everything that fits {wanted.shown} came from the target: there is nothing to mirror")


def _options(wanted: Wanted, how: How, first: Offsets, left_out: set[str]) -> Mapping[str, str]:
    options = {
        **how.options,
        "startingOffsets": msgspec.json.encode(to_json(first)).decode(),
        "failOnDataLoss": str(wanted.is_loss_fatal).lower(),
        "maxBytesPerTrigger": wanted.limit_bytes,
    }
    if wanted.group:
        options["kafka.group.id"] = wanted.group
    if wanted.subscription.pattern is not None:
        names = "|".join(map(re.escape, sorted(left_out)))
        return {
            **options,
            "subscribePattern": f"(?!(?:{names})$){wanted.subscription.pattern}"
            if names
            else wanted.subscription.pattern,
        }
    return {**options, "subscribe": ",".join(wanted.subscription.names)}
