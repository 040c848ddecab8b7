"""Batches on their way to a broker, without Spark."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from qanat.spark.options import Access
from qanat.spark.rows import Encoder, RowsError, Target
from qanat.spark.sending import Sender
from qanat.testing import EmbeddedBroker
from qanat.wire.compression import Codec


def test_a_batch_that_the_topic_finds_too_large_says_what_helps() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 100, pa.binary())], ["value"])
    with EmbeddedBroker() as broker, Sender(Access(broker.bootstrap_servers)) as sender:
        broker.create_topic("narrow", configs={"max.message.bytes": 2000})
        sender.be_idempotent()
        whole = Encoder(Target("narrow", Codec.NONE, 1_000_000, has_headers=False), {"narrow": 1})
        with pytest.raises(RowsError, match=r"narrow partition 0 .*a smaller kafka.batch.size"):
            sender.send_all(whole.encode(rows))
        parts = Encoder(Target("narrow", Codec.NONE, 1_500, has_headers=False), {"narrow": 1})

        assert sender.send_all(parts.encode(rows)) == 100
        assert len(broker.records("narrow")) == 100
