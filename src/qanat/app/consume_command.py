"""`qanat consume`: records of a topic on standard output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from qanat.app.consuming import Reading, RecordFilter, read
from qanat.app.envelope import encode_envelope
from qanat.app.group_offsets import commit_offsets, committed_offsets
from qanat.app.positions import Bounds, Position, offsets_at, parse_position, parse_range
from qanat.app.record_format import RecordFormat
from qanat.app.session import HERE, Target, WrongArgumentError, run
from qanat.connection.cluster import Cluster
from qanat.connection.fetching import FetchLimits
from qanat.connection.offsets import list_bounds
from qanat.model.ids import TopicPartition
from qanat.wire.records import Record

Encode = Callable[[str, int, Record], bytes]
Flag = Annotated[bool, Parameter(negative="")]


def consume(
    topic: str,
    /,
    *,
    begin: Annotated[str, Parameter(name=["--from", "--offset"], allow_leading_hyphen=True)] = "start",
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    exit_at_end: Annotated[bool, Parameter(name=["--exit-at-end", "-e"], negative="")] = False,
    number: Annotated[int | None, Parameter(name=["--number", "-n"])] = None,
    tail: int | None = None,
    partitions: Annotated[list[int] | None, Parameter(name=["--partition", "-p"], negative="")] = None,
    form: Annotated[str, Parameter(name=["--format", "-f"], allow_leading_hyphen=True)] = "%v\\n",
    json_envelope: Annotated[bool, Parameter(name=["--json-envelope", "-J"], negative="")] = False,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    grep: str | None = None,
    key: str | None = None,
    headers: Annotated[list[str] | None, Parameter(name=["--header", "-H"], negative="")] = None,
    committed_only: Flag = False,
    target: Target = HERE,
) -> None:
    r"""Print records of a topic, and wait for more unless an end is given.

        qanat consume orders -e
        qanat consume orders --from @2h --until @1h --grep refund
        qanat consume orders --tail 5 -f '%p/%o %k: %v\n'
        qanat consume orders -e --json-envelope | jq .value

    Places are: start, end, an offset, +N from the start, -N from the end, @2h ago, @2026-01-01T00:00 (UTC).

    Parameters
    ----------
    topic:
        Its name.
    begin:
        Where to begin; or a range, begin:end.
    until:
        Where to end (exclusive).
    exit_at_end:
        End with the last record that is there now.
    number:
        End after so many records.
    tail:
        The last so many records of each partition, and end.
    partitions:
        Only this partition, as often as needed.
    form:
        Form of a record: %t topic, %p partition, %o offset, %k key, %v value (%s), %T timestamp, %h headers,
        %K %V lengths; {hex} and {base64} behind %k or %v; \n \t \xNN.
    json_envelope:
        One JSON object per line, which `qanat produce --json-envelope` reads unchanged.
    group:
        Go on where this group has committed, and commit what was printed. The group must not have members.
    grep:
        Only records whose value this expression finds.
    key:
        Only records with this key.
    headers:
        Only records with this header: name, or name=value.
    committed_only:
        Leave out records of transactions that are not committed.
    """
    first, last = _places(begin, until, exit_at_end, tail)
    wanted = RecordFilter(_expression(grep), key.encode() if key is not None else None, _headers(headers or []))
    encode = _envelope if json_envelope else RecordFormat(form).encode
    if number is not None and number < 1:
        raise WrongArgumentError("-n must be at least 1")

    async def work(cluster: Cluster) -> None:
        reading = await _reading(cluster, topic, partitions, first, last, group)
        reading.limits = FetchLimits(is_committed_only=committed_only)
        await _print(cluster, reading, wanted, encode, number, group)

    run(target, work)


def _places(begin: str, until: str | None, is_to_end: bool, tail: int | None) -> tuple[Position, Position | None]:
    """Where to begin and to end, from the flags that say so."""
    first, last = parse_range(begin)
    if tail is not None:
        if begin != "start" or tail < 1:
            raise WrongArgumentError("--tail takes a number above 0, and no --from beside it")
        first, last = Position("end", -tail), Position("end")
    ends = [parse_position(until)] if until is not None else []
    ends += [Position("end")] if is_to_end else []
    ends += [last] if last is not None else []
    if len(set(ends)) > 1:
        raise WrongArgumentError("say where to end once: --until, -e, --tail or begin:end")
    return first, ends[0] if ends else None


def _expression(grep: str | None) -> re.Pattern[bytes] | None:
    try:
        return re.compile(grep.encode()) if grep is not None else None
    except re.error as fault:
        raise WrongArgumentError(f"--grep {grep}: {fault}") from None


def _headers(texts: list[str]) -> tuple[tuple[str, bytes | None], ...]:
    split = [text.partition("=") for text in texts]
    return tuple((name, value.encode() if separator else None) for name, separator, value in split)


def _envelope(topic: str, partition: int, record: Record) -> bytes:
    return encode_envelope(topic, partition, record).encode() + b"\n"


async def _reading(
    cluster: Cluster,
    topic: str,
    partitions: list[int] | None,
    first: Position,
    last: Position | None,
    group: str | None,
) -> Reading:
    """Offsets to begin and to end with; what a group has committed goes before --from."""
    deadline = cluster.deadline()
    view = await cluster.topic(topic, deadline)
    bounds: Bounds = await list_bounds(cluster, view, deadline)
    missing = [partition for partition in partitions or () if partition not in bounds]
    if missing:
        raise WrongArgumentError(f"topic {topic} has no partition {missing[0]}: it has {len(bounds)}")
    bounds = {partition: bounds[partition] for partition in partitions or bounds}
    positions = await offsets_at(cluster, view, first, bounds, deadline)
    ends = await offsets_at(cluster, view, last, bounds, deadline) if last is not None else {}
    if group is not None:
        committed = await committed_offsets(cluster, group, deadline)
        for partition, (begin, end) in bounds.items():
            offset = committed.get(TopicPartition(topic, partition))
            if offset is not None:
                positions[partition] = max(begin, min(offset, end))
    return Reading(topic, positions, ends)


async def _print(
    cluster: Cluster, reading: Reading, wanted: RecordFilter, encode: Encode, number: int | None, group: str | None
) -> None:
    left = number
    committed = dict(reading.positions)
    async for records in read(cluster, reading):
        pieces: list[bytes] = []
        for partition, record in records:
            if left == 0:
                # What is not printed is not read: the next of the group begins here.
                reading.positions[partition] = min(reading.positions[partition], record.offset)
            elif wanted.wants(record):
                pieces.append(encode(reading.topic, partition, record))
                left = None if left is None else left - 1
        sys.stdout.buffer.write(b"".join(pieces))
        sys.stdout.buffer.flush()
        if group is not None and committed != reading.positions:
            new = {TopicPartition(reading.topic, at): offset for at, offset in reading.positions.items()}
            await commit_offsets(cluster, group, new, cluster.deadline())
            committed = dict(reading.positions)
        if left == 0:
            return
