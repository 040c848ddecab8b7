"""Records that a query wanted and that are no longer there: said exactly, range by range."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from qanat.model.errors import QanatError
from qanat.spark.offsets import OffsetRange, Offsets

_log = logging.getLogger(__name__)


class DataLossError(QanatError):
    """A query wanted records that are gone, and was told to fail then."""


def lost(missing: Sequence[OffsetRange]) -> str:
    """The report of a loss."""
    listed = ", ".join(f"{one.at} offsets {one.start} to {one.end - 1}" for one in missing)
    total = sum(one.size for one in missing)
    return (
        f"{total} offsets are no longer there: {listed}. They were deleted (retention, DeleteRecords, a topic made "
        "anew) before the query read them. With failOnDataLoss=false a query goes on behind them; longer retention or "
        "a larger maxOffsetsPerTrigger keeps it from happening"
    )


def made_anew(back: Sequence[OffsetRange]) -> str:
    """The report that partitions end (`start`) before the position that a query has reached (`end`)."""
    listed = ", ".join(f"{one.at} ends at offset {one.start}, and the query has read up to {one.end}" for one in back)
    return (
        f"{listed}: the topic was made anew, and what the old one had from there on is gone. With failOnDataLoss=false "
        "a query reads the new one from its beginning"
    )


def without_lost(wanted: Sequence[OffsetRange], earliest: Offsets, must_fail: bool) -> list[OffsetRange]:
    """The ranges as far as they still exist; raises `DataLossError` if something is gone and that matters."""
    missing = [
        OffsetRange(one.at, one.start, min(one.end, earliest[one.at])) for one in wanted if one.start < earliest[one.at]
    ]
    if missing and must_fail:
        raise DataLossError(lost(missing))
    if missing:
        _log.warning("%s", lost(missing))
    existing = (OffsetRange(one.at, max(one.start, earliest[one.at]), one.end) for one in wanted)
    return [one for one in existing if one.size > 0]


def within(asked: Offsets, latest: Offsets, what: str, must_fail: bool) -> Offsets:
    """Offsets that were asked for by number, none behind the end; raises `DataLossError` if one is and that matters."""
    beyond = sorted(at for at, offset in asked.items() if at in latest and offset > latest[at])
    if not beyond:
        return asked
    listed = ", ".join(f"{asked[at]} of {at}, which ends at {latest[at]}" for at in beyond)
    report = f"{what} asks for offset {listed}: records were lost, or the offset is of another topic"
    if must_fail:
        raise DataLossError(f"{report}. With failOnDataLoss=false a read takes what there is")
    _log.warning("%s; what there is is read", report)
    return {**asked, **{at: latest[at] for at in beyond}}
