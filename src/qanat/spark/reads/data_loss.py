"""Data loss: records of a query that are no longer there, reported range by range."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from qanat.model.errors import QanatError
from qanat.spark.offsets import OffsetRange, Offsets

_log = logging.getLogger(__name__)


class DataLossError(QanatError):
    """Records of a query are gone, and failOnDataLoss is set."""


def lost(missing: Sequence[OffsetRange]) -> str:
    """The report of a loss."""
    listed = ", ".join(f"{one.at} offsets {one.start} to {one.end - 1}" for one in missing)
    total = sum(one.size for one in missing)
    return (
        f"{total} offsets are no longer there: {listed}. They were deleted (retention, DeleteRecords, a recreated "
        "topic) before the query read them. With failOnDataLoss=false a query skips them; longer retention or a larger "
        "maxOffsetsPerTrigger prevents it"
    )


def recreated(back: Sequence[OffsetRange]) -> str:
    """The report of partitions that end (`start`) before the position of a query (`end`)."""
    listed = ", ".join(f"{one.at} ends at offset {one.start}, and the query has read up to {one.end}" for one in back)
    return (
        f"{listed}: the topic was recreated, and the rest of the old one is gone. With failOnDataLoss=false a query "
        "reads the new one from its beginning"
    )


def without_lost(wanted: Sequence[OffsetRange], earliest: Offsets, must_fail: bool) -> list[OffsetRange]:
    """The ranges as far as they still exist; raises `DataLossError` for lost records if `must_fail`."""
    missing = [
        OffsetRange(one.at, one.start, min(one.end, earliest[one.at])) for one in wanted if one.start < earliest[one.at]
    ]
    if missing and must_fail:
        raise DataLossError(lost(missing))
    if missing:
        _log.warning("%s", lost(missing))
    existing = (OffsetRange(one.at, max(one.start, earliest[one.at]), one.end) for one in wanted)
    return [one for one in existing if one.size > 0]


def within(requested: Offsets, latest: Offsets, what: str, must_fail: bool) -> Offsets:
    """Requested offsets, none beyond the end; raises `DataLossError` for one that is, if `must_fail`."""
    beyond = sorted(at for at, offset in requested.items() if at in latest and offset > latest[at])
    if not beyond:
        return requested
    listed = ", ".join(f"{requested[at]} of {at}, which ends at {latest[at]}" for at in beyond)
    report = f"{what} asks for offset {listed}: records were lost, or the offset is of another topic"
    if must_fail:
        raise DataLossError(f"{report}. With failOnDataLoss=false the read ends there")
    _log.warning("%s; the read ends there", report)
    return {**requested, **{at: latest[at] for at in beyond}}
