"""The tally of a query as the state that is stored and exported. Pure."""

from __future__ import annotations

from qanat.model.pipeline_runs import QueryState, TopicLag
from qanat.spark.pipelines.progress import Tally


def query_state(tally: Tally) -> QueryState:
    return QueryState(
        tally.query,
        tally.batches,
        tally.rows,
        tally.written,
        round(tally.rows_per_second, 1),
        tally.seconds,
        tally.batch_seconds,
        {topic: dict(offsets) for topic, offsets in tally.offsets.items()},
        {topic: TopicLag(records) for topic, records in tally.lags.items()},
        tally.watermark,
        tally.state_rows,
        tally.state_bytes,
        tally.duplicates,
        tally.late,
    )
