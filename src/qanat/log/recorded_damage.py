"""Recorded damage: damage found while the log is open, written into the sidecars of its segments.

The next start reads it there, even after a crash: a start does not read sealed segments.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qanat.log.atomic_files import replace
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import Sidecar, encode_sidecar


class RecordDamageJob:
    """Rewrites the sidecars of some segments. No other job may change the log meanwhile."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._recorded = [(segment, _with_damage(segment)) for segment in segments]

    def run(self) -> None:
        for segment, sidecar in self._recorded:
            replace(segment.files, segment.path(file_names.SIDECAR), encode_sidecar(sidecar))

    def finish(self) -> None:
        for segment, sidecar in self._recorded:
            segment.sidecar = sidecar


def _with_damage(segment: Segment) -> Sidecar:
    assert segment.sidecar is not None, "only sealed segments have one"
    return msgspec.structs.replace(segment.sidecar, damage=segment.damage)


def begin_damage_record(log: PartitionLog) -> RecordDamageJob | None:
    """A job for the damage that no sidecar lists yet; None where there is none."""
    news = [one for one in log.segments if one.sidecar is not None and one.damage != one.sidecar.damage]
    return RecordDamageJob(news) if news else None
