"""Which way records came: so that nothing is mirrored back to where it was.

Mirrors keep at their target which topics they wrote and through which clusters those came. A topic that is itself a
copy is mirrored on, unless its way went through the target.
"""

from __future__ import annotations

import re
from functools import partial

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.spark.copying.inventory import patiently, topic_names
from qanat.spark.copying.ledger import Ledger, Note, read_notes
from qanat.spark.lake.commits import TopicState
from qanat.spark.pipelines.bundled.mirror import Wanted
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.reads.offset_lookup import Lookups

LEDGERS = re.compile(r"qanat-mirror\..*\.offsets")


class Ways:
    """What the ledgers at the source say."""

    def __init__(self, source: Lookups, origin: str, target: str, wanted: Wanted) -> None:
        self._source = source
        self._origin = origin
        self._target = target
        self._wanted = wanted
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}

    def learn(self) -> None:
        """Read the ledgers, again if need be."""
        ledger = Ledger()
        for name in topic_names(self._source):
            if LEDGERS.fullmatch(name):
                for note in patiently(self._source, partial(_notes, name)):
                    if note[0].startswith('["copy"'):
                        ledger.take(note)
        self._known = {key: one.way for key, one in ledger.copies.items()}

    def of(self, name: str, state: TopicState) -> tuple[str, ...] | None:
        """The clusters that a topic's records have passed, this one included; None if it must not be mirrored.

        Raises `PipelineError` where somebody asked for it by name.
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


async def _notes(topic: str, cluster: Cluster, deadline: Deadline) -> list[Note]:
    return await read_notes(cluster, topic, deadline)
