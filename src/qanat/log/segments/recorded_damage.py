"""Damage that was found while the log was open, written into the sidecars of its segments.

So that the next start knows it, be it after a crash: nobody reads sealed segments then.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qanat.log.directories.atomic_files import replace
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import Sidecar, encode_sidecar


class NoteDamageJob:
    """Writes the sidecars of some segments anew. No other job may change the log meanwhile."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._noted = [(segment, _with_damage(segment)) for segment in segments]

    def run(self) -> None:
        for segment, sidecar in self._noted:
            replace(segment.files, segment.path(file_names.SIDECAR), encode_sidecar(sidecar))

    def finish(self) -> None:
        for segment, sidecar in self._noted:
            segment.sidecar = sidecar


def _with_damage(segment: Segment) -> Sidecar:
    assert segment.sidecar is not None, "only sealed segments have one"
    return msgspec.structs.replace(segment.sidecar, damage=segment.damage)


def begin_noting(log: PartitionLog) -> NoteDamageJob | None:
    """A job for the damage that no sidecar tells of; None where there is none."""
    news = [one for one in log.segments if one.sidecar is not None and one.damage != one.sidecar.damage]
    return NoteDamageJob(news) if news else None
