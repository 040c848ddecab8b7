"""`qanat produce`: lines of standard input become records."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.envelope import decode_envelope
from qanat.app.lines import read_lines
from qanat.app.session import HERE, Target, WrongArgumentError, run
from qanat.connection.cluster import Cluster
from qanat.connection.partitioning import partition_of
from qanat.connection.producing import produce as send
from qanat.wire.compression import Codec
from qanat.wire.records import Record, encode_batch

_ACKS = {"all": -1, "1": 1, "0": 0}
_BATCH_BYTES = 512 * 1024
"""A batch is sent when its records have so many bytes; brokers accept one megabyte unless told otherwise."""
_BATCH_RECORDS = 10_000

Flag = Annotated[bool, Parameter(negative="")]


def produce(
    topic: str,
    /,
    *,
    key_delimiter: Annotated[str | None, Parameter(name=["--key-delimiter", "-k"], allow_leading_hyphen=True)] = None,
    key: str | None = None,
    headers: Annotated[list[str] | None, Parameter(name=["--header", "-H"], negative="")] = None,
    partition: Annotated[int | None, Parameter(name=["--partition", "-p"])] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], Parameter(name=["--compression", "-z"])
    ] = "none",
    acks: Literal["all", "1", "0"] = "all",
    null: Annotated[bool, Parameter(name=["--null", "-Z"], negative="")] = False,
    json_envelope: Annotated[bool, Parameter(name=["--json-envelope", "-J"], negative="")] = False,
    keep_partition: Flag = False,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False,
    target: Target = HERE,
) -> None:
    """Write each line of standard input to a topic as one record.

    A record with a key goes where Java's client would put it (murmur2); records without one go to one
    partition after another. The topic is created if the cluster allows it.

        echo hello | qanat produce greetings
        printf 'k1=v1' | qanat produce orders -k = -H source=shell
        qanat consume orders -e --json-envelope | qanat produce copy --json-envelope

    Parameters
    ----------
    topic:
        Its name.
    key_delimiter:
        What stands between key and value on a line; a line without it has no key.
    key:
        The same key for every record.
    headers:
        A header of every record: -H name=value, as often as needed.
    partition:
        This partition for every record.
    compression:
        Codec of the batches.
    acks:
        Who must have a record before it counts: all in-sync replicas, the leader, nobody.
    null:
        An empty value is a tombstone.
    json_envelope:
        Lines are what `qanat consume --json-envelope` writes: key, value, headers and timestamp are taken over.
    keep_partition:
        With --json-envelope, take over the partition as well.
    verbose:
        Say on stderr which offsets the records got.
    """
    if key is not None and key_delimiter is not None:
        raise WrongArgumentError("give --key or --key-delimiter, not both")
    if key_delimiter == "":
        raise WrongArgumentError("--key-delimiter must not be empty")
    reading = LineReading(
        key_delimiter.encode() if key_delimiter is not None else None,
        key.encode() if key is not None else None,
        tuple(_header(text) for text in headers or ()),
        is_null=null,
        is_envelope=json_envelope,
    )

    async def work(cluster: Cluster) -> None:
        view = await cluster.topic(topic, cluster.deadline(), may_create=True)
        if partition is not None and partition not in view.leaders:
            raise WrongArgumentError(f"topic {topic} has no partition {partition}: it has {len(view.leaders)}")
        spread = Spread(len(view.leaders), partition, keep_partition)
        codec = Codec[compression.upper()]
        async for lines in read_lines():
            for batches in spread.batches([reading.record(line) for line in lines]):
                encoded = {at: encode_batch(records, codec=codec) for at, records in batches.items()}
                offsets = await send(cluster, topic, encoded, _ACKS[acks], cluster.deadline())
                if verbose:
                    _report(batches, offsets)

    run(target, work)


@dataclass(slots=True)
class LineReading:
    """How a line becomes a record."""

    delimiter: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False
    is_envelope: bool = False
    _line_number: int = field(default=0)

    def record(self, line: bytes) -> tuple[Record, int | None]:
        """The record, and the partition that it asks for."""
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
class Spread:
    """Which partition each record goes to, and which go together."""

    count: int
    fixed: int | None = None
    is_kept: bool = False
    _next: int = 0

    def batches(self, records: Sequence[tuple[Record, int | None]]) -> list[dict[int, list[Record]]]:
        """Records in rounds of at most one batch per partition; order within a partition is kept."""
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
        # Records without a key share a partition while they come together, then it is the next one's turn.
        self._next = (self._next + 1) % self.count
        return rounds

    def _partition(self, record: Record, wanted: int | None) -> int:
        if self.fixed is not None:
            return self.fixed
        if self.is_kept and wanted is not None:
            if not 0 <= wanted < self.count:
                raise WrongArgumentError(f"there is no partition {wanted} here: leave --keep-partition away")
            return wanted
        return self._next if record.key is None else partition_of(record.key, self.count)


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not separator:
        raise WrongArgumentError(f"--header {text} should read name=value")
    return name, value.encode()


def _report(batches: dict[int, list[Record]], offsets: dict[int, int]) -> None:
    for partition, first in sorted(offsets.items()):
        last = first + len(batches[partition]) - 1
        print(f"partition {partition}: offsets {first} to {last}", file=sys.stderr)
