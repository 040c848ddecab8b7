"""A running mirror: topics at the target follow those at the source, micro-batches are copied, groups moved."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from qanat.model.ids import TopicPartition
from qanat.spark.copying.copy_target import CopyTarget
from qanat.spark.copying.group_positions import put
from qanat.spark.copying.inventory import cluster_id, groups, topics
from qanat.spark.copying.ledger import Copy
from qanat.spark.copying.provision import provide
from qanat.spark.lake.commits import TopicState
from qanat.spark.offsets import Offsets, to_json
from qanat.spark.options.options import Access
from qanat.spark.pipelines.bundled.micro_batches import (
    PeriodicTask,
    find_partitions,
    start_offsets,
    start_query,
    temporary_folder,
)
from qanat.spark.pipelines.bundled.mirror_routes import Routes
from qanat.spark.pipelines.bundled.mirror_settings import MirrorSettings
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_STAMPS = "message.timestamp.type"
"""Not copied: at the target records have their original timestamps, of either type."""


class Mirror:
    """The copied topics and their state."""

    def __init__(
        self, source: Lookups, copy_target: CopyTarget, routes: Routes, wanted: MirrorSettings, staging: str
    ) -> None:
        self._source = source
        self._routes = routes
        self._copy_target = copy_target
        self._wanted = wanted
        self._staging = staging
        self.copies: dict[str, Copy] = {}
        """By the names at the source."""
        self._followed: dict[str, TopicState] = {}
        self._turn = threading.RLock()
        """Serializes batches and updates."""
        self.left_out: set[str] = set()
        """Topics that came from the target."""
        self._refused: set[str] = set()

    def provide(self) -> list[TopicPartition]:
        """Create and update topics at the target; returns the partitions at the source that are copied."""
        with self._turn:
            chosen = find_partitions(self._source, self._wanted.subscription, self._wanted.shown)
            now = topics(self._source, {at.topic for at in chosen})
            if any(name not in self.copies for name in now):
                self._routes.refresh()
            new: list[Copy] = []
            for name, state in now.items():
                route = self._routes.of(name, state)
                if route is None:
                    self.left_out.add(name)
                elif self._followed.get(name) != state:
                    new.append(self._provide_one(name, state, route))
                    self._followed[name] = state
            self._copy_target.record_copies(new)
            self.copies |= {one.source: one for one in new}
            return [at for at in chosen if at.topic in self.copies]

    def begin_at_the_end(self, chosen: list[TopicPartition]) -> None:
        """Record the start of new partitions: otherwise the next run would skip records after a run without any."""
        known = self.positions()
        self._copy_target.record_copies(
            self.copies.values(), self._source.latest(at for at in chosen if at not in known)
        )

    def _provide_one(self, name: str, state: TopicState, route: tuple[str, ...]) -> Copy:
        target = self._wanted.naming(name)
        lookups = self._copy_target.lookups
        there = topics(lookups, [target]).get(target)
        if there is not None and name not in self.copies and self._copy_target.copy_of(target, there) is None:
            self._check_free(target, there)
        settings = {key: value for key, value in state.settings.items() if key != _STAMPS}
        provided = provide(lookups, target, state.partitions, settings)
        known = self.copies.get(name)
        if known is not None and known.id != provided.id:
            raise PipelineError(
                f"topic {target} was deleted at the target while it was mirrored: start the mirror again"
            )
        return Copy(target, provided.id, name, route)

    def _check_free(self, target: str, there: TopicState) -> None:
        places = [TopicPartition(target, number) for number in range(there.partitions)]
        first, end = self._copy_target.lookups.earliest(places), self._copy_target.lookups.latest(places)
        count = sum(end[at] - first[at] for at in places)
        if count:
            raise PipelineError(
                f"topic {target} exists at the target, with {count:,} records that this mirror did not write: mirror "
                "under other names (prefix, rename), or delete it first"
            )

    def take(self, frame: DataFrame) -> int:
        """Copy a micro-batch, unless it is copied already; returns the number of new records."""
        from pyspark.sql import functions

        with self._turn:
            self.provide()
            ours = frame.where(functions.col("topic").isin(sorted(self.copies)))
            return self._copy_target.copy(ours, self.copies, self._staging, self._wanted.compression)

    def look_around(self) -> None:
        """Update settings, partitions and groups from the source."""
        with self._turn:
            self.provide()
            self.move_groups()

    def move_groups(self) -> None:
        if self._wanted.groups is None:
            return
        stand = groups(self._source, self.copies, self._wanted.groups, [self._wanted.group])
        for name, positions in stand.items():
            outcome = put(self._copy_target, name, positions, self.copies, is_forward_only=True)
            if outcome.is_refused and name not in self._refused:
                _log.warning("%s", outcome.text)
            (self._refused.add if outcome.is_refused else self._refused.discard)(name)

    def positions(self) -> Offsets:
        return self._copy_target.ledger.positions(self.copies.values())


def mirror(spark: SparkSession, wanted: MirrorSettings, run_options: RunOptions) -> Stages:
    """Mirror until it is stopped or, with available_now, until everything is copied."""
    with ExitStack() as stack:
        source = stack.enter_context(Lookups(run_options.access))
        origin, target = cluster_id(source), _cluster_id_at(wanted.to)
        routes = Routes(source, origin, target, wanted)
        _check_routes(source, routes, wanted)
        name = wanted.name or origin
        copy_target = stack.enter_context(CopyTarget(wanted.to, f"qanat-mirror.{name}.offsets"))
        folder = stack.enter_context(temporary_folder(run_options.checkpoint))
        run = Mirror(source, copy_target, routes, wanted, f"{folder}/staging")
        chosen = run.provide()
        if origin == target:
            run.left_out |= {one.topic for one in run.copies.values()}
        if wanted.start == "latest":
            run.begin_at_the_end(chosen)
        first = start_offsets(chosen, run.positions(), wanted.start)
        query = start_query(
            spark,
            "mirror",
            _options(wanted, run_options, first, run.left_out),
            f"{wanted.every_s} seconds",
            run_options,
            f"{folder}/spark",
            run.take,
        )
        stack.callback(query.stop)
        periodic = stack.enter_context(PeriodicTask("mirror of groups", wanted.follow_every_s, run.look_around))
        try:
            yield [query]
        finally:
            if query.exception() is None:
                query.stop()
                periodic.once()


def _cluster_id_at(access: Access) -> str:
    with Lookups(access) as lookups:
        return cluster_id(lookups)


def _check_routes(source: Lookups, routes: Routes, wanted: MirrorSettings) -> None:
    """Raise for topics that cannot be mirrored, before anything is created."""
    routes.refresh()
    names = {at.topic for at in find_partitions(source, wanted.subscription, wanted.shown)}
    if all(routes.of(name, state) is None for name, state in topics(source, names).items()):
        raise PipelineError(f"all topics of {wanted.shown} came from the target: there is nothing to mirror")


def _options(wanted: MirrorSettings, run_options: RunOptions, first: Offsets, left_out: set[str]) -> Mapping[str, str]:
    options = {
        **run_options.cluster,
        "startingOffsets": msgspec.json.encode(to_json(first)).decode(),
        "failOnDataLoss": str(wanted.is_loss_fatal).lower(),
        **{name: str(value) for name, value in wanted.limits.options().items()},
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
