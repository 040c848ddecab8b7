"""`maxOffsetsPerTrigger`: the rows of a micro-batch, divided among partitions (pure)."""

from __future__ import annotations

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import Offsets, ranges


def cut_by_rows(start: Offsets, end: Offsets, max_rows: int) -> dict[TopicPartition, int]:
    """The end moved back so that at most `max_rows` offsets lie before it, in proportion to what each partition has.

    Rounding leaves a rest for the largest remainders, so that the limit is used up and never exceeded, and every
    partition with records advances in the long run.
    """
    wanted = ranges(start, end)
    total = sum(one.size for one in wanted)
    result = dict(end)
    if total <= max_rows:
        return result
    shares = {one.at: one.size * max_rows // total for one in wanted}
    left = max_rows - sum(shares.values())
    by_remainder = sorted(wanted, key=lambda one: (-(one.size * max_rows % total), one.at))
    for one in by_remainder[:left]:
        shares[one.at] += 1
    for one in wanted:
        result[one.at] = one.start + shares[one.at]
    return result
