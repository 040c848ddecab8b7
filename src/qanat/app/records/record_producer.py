"""Record producer: lines become records, records become batches, and batches are sent in rounds.

Rule: lines are sent in their order. Lines sent before an error stay in the topic; the error says which ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.configs.config_requests import TOPIC, describe_configs
from qanat.app.records.json_envelope import decode_envelope
from qanat.app.terminal.stdin_lines import LINE_BYTES_MAX, LineLimit
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.faults import NotOfferedError, RefusedError
from qanat.connection.pipelined_producer import ACKS_NONE
from qanat.model.errors import QanatError
from qanat.wire.compression import Codec
from qanat.wire.key_hash import partition_of
from qanat.wire.records import Record, encode_batch

AddressedRecord = tuple[Record, int | None]
"""A record, and the partition that it names."""

_BATCH_BYTES = 512 * 1024
"""A batch is sent when its records have so many bytes; brokers accept one megabyte by default."""
_BATCH_RECORDS = 10_000
_ENVELOPE_GROWTH = 6
"""How many characters of an envelope one byte may take: \\u0000."""
_ENVELOPE_FRAME = 64 * 1024


class StoppedError(QanatError):
    """Not all lines were accepted; the message says which were."""


async def line_limit(cluster: Cluster, topic: str, *, is_envelope: bool) -> LineLimit:
    """The longest line that the topic accepts uncompressed."""
    try:
        settings = {one.name: one.value for one in await describe_configs(cluster, TOPIC, topic)}
        size = int(settings.get("max.message.bytes") or LINE_BYTES_MAX)
    except (RefusedError, NotOfferedError, ValueError):
        return LineLimit()
    reason = f"topic {topic} takes {size} bytes (max.message.bytes)"
    return LineLimit(min(LINE_BYTES_MAX, size * _ENVELOPE_GROWTH + _ENVELOPE_FRAME if is_envelope else size), reason)


@dataclass(slots=True)
class RecordSender:
    """Sends batches to a topic and counts the lines."""

    cluster: Cluster
    topic: str
    codec: Codec
    acks: int
    is_verbose: bool = False
    _lines: int = 0
    """Lines that were accepted."""
    _producer: BatchProducer | None = None

    async def send_all(
        self,
        chunks: AsyncIterator[list[bytes]],
        reading: LineParser,
        partitioner: Partitioner,
        report_progress: Callable[[int, int], None],
    ) -> None:
        """Send every line; raises `StoppedError` at the first that cannot be sent."""
        size = 0
        try:
            async for lines in chunks:
                records, fault = reading.records(lines)
                for batches in partitioner.batches(records):
                    await self._send(batches)
                if fault is not None:
                    raise fault
                size += sum(map(len, lines)) + len(lines)
                report_progress(size, self._lines)
        except WrongArgumentError as fault:
            raise StoppedError(f"{fault}; {self._taken()}") from None

    async def _send(self, batches: dict[int, list[Record]]) -> None:
        count = sum(map(len, batches.values()))
        if not count:
            return
        encoded = {at: encode_batch(records, codec=self.codec) for at, records in batches.items()}
        try:
            offsets = await self._opened().send(self.topic, encoded, self.cluster.deadline())
        except QanatError as fault:
            first, last = self._lines + 1, self._lines + count
            lost = f"line {first} was not" if count == 1 else f"lines {first} to {last} were not, or not all of them"
            raise StoppedError(f"{fault}; {self._taken()}, {lost}") from None
        self._lines += count
        if self.is_verbose:
            _report(batches, offsets)

    def _opened(self) -> BatchProducer:
        self._producer = self._producer or BatchProducer(self.cluster, acks=self.acks)
        return self._producer

    def _taken(self) -> str:
        verb = "sent" if self.acks == ACKS_NONE else "taken"
        match self._lines:
            case 0:
                return f"nothing was {verb} before"
            case 1:
                return f"line 1 was {verb}"
            case _:
                return f"lines 1 to {self._lines} were {verb}"


@dataclass(slots=True)
class LineParser:
    """Parses lines as records."""

    delimiter: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False
    is_envelope: bool = False
    _line_number: int = field(default=0)

    def records(self, lines: Sequence[bytes]) -> tuple[list[AddressedRecord], WrongArgumentError | None]:
        """The records of these lines up to the first malformed one, and its error."""
        found: list[AddressedRecord] = []
        for line in lines:
            try:
                found.append(self.record(line))
            except WrongArgumentError as fault:
                return found, fault
        return found, None

    def record(self, line: bytes) -> AddressedRecord:
        """The record of a line, and the partition that it names."""
        self._line_number += 1
        now_ms = time.time_ns() // 1_000_000
        if self.is_envelope:
            record, partition = decode_envelope(line, self._line_number)
            timestamp = record.timestamp if record.timestamp >= 0 else now_ms
            return Record(0, timestamp, record.key, record.value, (*record.headers, *self.headers)), partition
        key, value = self.key, line
        if self.delimiter is not None and self.delimiter in line:
            key, _, value = line.partition(self.delimiter)
        is_tombstone = self.is_null and not value
        return Record(0, now_ms, key, None if is_tombstone else value, self.headers), None


@dataclass(slots=True)
class Partitioner:
    """Chooses the partition of each record and groups records into batches."""

    count: int
    fixed: int | None = None
    is_kept: bool = False
    _next: int = 0

    def batches(self, records: Sequence[AddressedRecord]) -> list[dict[int, list[Record]]]:
        """Records in rounds of at most one batch per partition, in order within a partition."""
        rounds: list[dict[int, list[Record]]] = [{}]
        sizes: dict[int, int] = {}
        for record, wanted in records:
            at = self._partition(record, wanted)
            size = len(record.key or b"") + len(record.value or b"") + 64
            batch = rounds[-1].get(at, [])
            if batch and (sizes[at] + size > _BATCH_BYTES or len(batch) >= _BATCH_RECORDS):
                rounds.append({})
                sizes = {}
            batch = rounds[-1].setdefault(at, [])
            batch.append(Record(len(batch), record.timestamp, record.key, record.value, record.headers))
            sizes[at] = sizes.get(at, 0) + size
        # Records without a key share a partition within one call; the next call uses the next partition.
        self._next = (self._next + 1) % self.count
        return rounds

    def _partition(self, record: Record, wanted: int | None) -> int:
        if self.fixed is not None:
            return self.fixed
        if self.is_kept and wanted is not None:
            if not 0 <= wanted < self.count:
                raise WrongArgumentError(f"there is no partition {wanted} here: leave --keep-partition out")
            return wanted
        return self._next if record.key is None else partition_of(record.key, self.count)


def _report(batches: dict[int, list[Record]], offsets: dict[int, int]) -> None:
    for partition, first in sorted(offsets.items()):
        last = first + len(batches[partition]) - 1
        print(f"partition {partition}: offsets {first} to {last}", file=sys.stderr)
