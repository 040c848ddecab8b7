"""Poison records, whose value does not fit: marked with the reason, dropped, or an error that ends the query."""

from __future__ import annotations

import logging

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.formats.decoding import Decoder
from qanat.spark.formats.value_format import Mode

_log = logging.getLogger(__name__)

MALFORMED = pa.struct([("reason", pa.string()), ("value", pa.binary())])
"""The column that `mode=PERMISSIVE` adds: null where a value fits."""


class PoisonRecordError(QanatError):
    """A record that does not fit its schema, with mode=FAILFAST."""


class ValueReader:
    """Decodes the values of record batches in one mode."""

    def __init__(self, decoder: Decoder, name: str, mode: Mode) -> None:
        self._decoder = decoder
        self._name = name
        self._mode = mode

    def read(
        self, values: pa.Array, offsets: pa.Array, at: TopicPartition
    ) -> tuple[pa.Array, pa.Array, pa.Array | None]:
        """The typed column, the column of misfits, and which rows stay (None for all)."""
        decoded = self._decoder.decode(values)
        misfits = decoded.misfits
        if not misfits:
            return decoded.column, pa.nulls(len(values), MALFORMED), None
        first = min(misfits)
        where = f"offset {offsets[first]} of {at.topic} partition {at.partition}"
        if self._mode == "FAILFAST":
            raise PoisonRecordError(
                f"the record at {where} is not valid {self._name}: {misfits[first]}. mode=PERMISSIVE marks such "
                "records with the reason in column malformed, mode=DROPMALFORMED drops them"
            )
        if self._mode == "DROPMALFORMED":
            _log.warning(
                "dropped %d records of %s partition %d that are not valid %s; the first is at offset %s: %s",
                len(misfits),
                at.topic,
                at.partition,
                self._name,
                offsets[first],
                misfits[first],
            )
            stays = pa.array([row not in misfits for row in range(len(values))], pa.bool_())
            return decoded.column, pa.nulls(len(values), MALFORMED), stays
        malformed = [
            {"reason": misfits[row], "value": values[row].as_py()} if row in misfits else None
            for row in range(len(values))
        ]
        return decoded.column, pa.array(malformed, MALFORMED), None
