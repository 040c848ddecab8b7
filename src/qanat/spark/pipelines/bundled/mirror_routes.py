"""Routes of mirrored topics, so that no mirror is a loop.

A mirror stores at its target which topics it wrote and the clusters that they passed through. A topic that is itself a
copy is mirrored further, unless its route contains the target.
"""

from __future__ import annotations

import re
from functools import partial

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.spark.copying.inventory import topic_names
from qanat.spark.copying.ledger import Ledger, LedgerEntry, read_entries
from qanat.spark.lake.commits import TopicState
from qanat.spark.pipelines.bundled.mirror_settings import MirrorSettings
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.reads.offset_lookup import Lookups

LEDGERS = re.compile(r"qanat-mirror\..*\.offsets")


class Routes:
    """The routes of topics at the source, from the ledgers there."""

    def __init__(self, source: Lookups, origin: str, target: str, wanted: MirrorSettings) -> None:
        self._source = source
        self._origin = origin
        self._target = target
        self._wanted = wanted
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}

    def refresh(self) -> None:
        """Read the ledgers again."""
        ledger = Ledger()
        for name in topic_names(self._source):
            if LEDGERS.fullmatch(name):
                for entry in self._source.ask(partial(_entries, name)):
                    if entry[0].startswith('["copy"'):
                        ledger.apply(entry)
        self._known = {key: one.route for key, one in ledger.copies.items()}

    def of(self, name: str, state: TopicState) -> tuple[str, ...] | None:
        """The clusters that a topic's records have passed, this one included; None if it must not be mirrored.

        Raises `PipelineError` if the user named such a topic.
        """
        if self._origin == self._target and self._wanted.naming(name) == name:
            raise PipelineError(
                f"source and target are the same cluster ({self._origin}), and {name} would be copied into itself: "
                "give a prefix, or another cluster in `to`"
            )
        before = self._known.get((name, state.id), ())
        if self._target not in (before if self._origin == self._target else (*before, self._origin)):
            return (*before, self._origin)
        if name in self._wanted.subscription.names:
            raise PipelineError(f"topic {name} came from the target by a mirror: to mirror it back would be a loop")
        return None


async def _entries(topic: str, cluster: Cluster, deadline: Deadline) -> list[LedgerEntry]:
    return await read_entries(cluster, topic, deadline)
