"""Foreign implementations of record batches: independent judges of what we read and write."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from qanat.wire.compression import Codec

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 warns about.
    warnings.simplefilter("ignore", DeprecationWarning)
    import aiokafka.record.default_records as aiokafka_records  # type: ignore[import-untyped]
    import kafka.codec  # type: ignore[import-untyped]
    import kafka.record.default_records as kafka_records  # type: ignore[import-untyped]


class Judge(NamedTuple):
    """A reader and a builder of batches, and the codecs whose libraries it finds here."""

    name: str
    reader: Any
    builder: Any
    codecs: list[Codec]


JUDGES = [
    Judge("aiokafka", aiokafka_records.DefaultRecordBatch, aiokafka_records.DefaultRecordBatchBuilder, list(Codec)),
    Judge(
        "aiokafka-pure",
        aiokafka_records._DefaultRecordBatchPy,
        aiokafka_records._DefaultRecordBatchBuilderPy,
        list(Codec),
    ),
    Judge(
        "kafka-python",
        kafka_records.DefaultRecordBatch,
        kafka_records.DefaultRecordBatchBuilder,
        [Codec.NONE, Codec.GZIP]
        + [Codec.SNAPPY] * kafka.codec.has_snappy()
        + [Codec.LZ4] * kafka.codec.has_lz4()
        + [Codec.ZSTD] * kafka.codec.has_zstd(),
    ),
]
