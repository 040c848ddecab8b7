"""Options of the source and of the sink: the names of Spark's Kafka connector, and a few more. Pure.

An unknown option, or a value of the wrong kind, is an error that suggests the nearest right name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from qanat.connection.security import MEANINGS, UNPROTECTED, Security, security_of
from qanat.model.errors import InvalidSettingError
from qanat.model.ids import TopicPartition
from qanat.spark.formats.value_format import ValueFormat
from qanat.spark.offsets import EARLIEST, LATEST, Bound, Offsets, parse, parse_assignment
from qanat.spark.options.option_reader import A_SIZE, OptionError, OptionReader, not_negative, size
from qanat.spark.options.value_options import value_format

CLIENT_ID = "qanat-spark"
FETCH_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which topics are read: by name, by a pattern over names, or partition by partition."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] = frozenset()

    def takes(self, at: TopicPartition) -> bool:
        if self.assigned:
            return at in self.assigned
        if self.pattern is not None:
            return re.fullmatch(self.pattern, at.topic) is not None
        return at.topic in self.names

    def __str__(self) -> str:
        if self.assigned:
            return "assign " + ", ".join(map(str, sorted(self.assigned)))
        return f"subscribePattern {self.pattern}" if self.pattern is not None else "subscribe " + ",".join(self.names)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the brokers of a cluster."""

    bootstrap: str
    client_id: str = CLIENT_ID
    timeout_s: float = 60.0
    security: Security = UNPROTECTED


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a read."""

    access: Access
    subscription: Subscription
    start: Bound
    end: Bound
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    target_batch_time_s: float | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    group: str | None = None
    is_committed_only: bool = True
    fetch_bytes: int = FETCH_BYTES
    value: ValueFormat | None = None


Delivery = Literal["at-least-once", "exactly-once"]


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a write."""

    access: Access
    topic: str | None = None
    include_headers: bool = False
    delivery: Delivery = "at-least-once"
    transactional_id: str | None = None
    staging: str | None = None
    compression: str = "none"
    acks: int = -1
    batch_bytes: int = BATCH_BYTES
    txn_app_id: str | None = None
    txn_version: int | None = None
    """Together: the name and the number of a batch write, which is written once."""
    local_ingest: bool = True
    """Whether brokers on this machine ingest files."""
    remote_ingest: bool = True
    """Whether tasks upload rows of a transaction to the brokers that lead their partitions."""


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options of a read; raises `OptionError` or `OffsetsError` naming the wrong one."""
    reader = OptionReader(options)
    access = _access(reader)
    subscription = _subscription(reader)
    start = _start(reader, is_stream)
    end = _end(reader, is_stream)
    max_delay_s = reader.duration("maxTriggerDelay")
    result = SourceOptions(
        access=access,
        subscription=subscription,
        start=start,
        end=end,
        fail_on_data_loss=reader.flag("failOnDataLoss", True),
        include_headers=reader.flag("includeHeaders", False),
        min_partitions=reader.positive("minPartitions"),
        max_records_per_partition=reader.positive("maxRecordsPerPartition"),
        max_offsets_per_trigger=reader.positive("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=reader.convert("maxBytesPerTrigger", A_SIZE, size, None),
        target_batch_time_s=reader.duration("targetBatchTime"),
        min_offsets_per_trigger=reader.positive("minOffsetsPerTrigger"),
        max_trigger_delay_s=900.0 if max_delay_s is None else max_delay_s,
        group=reader.text("kafka.group.id"),
        is_committed_only=reader.choice("kafka.isolation.level", _ISOLATION, True),
        fetch_bytes=reader.convert("kafka.fetch.max.bytes", A_SIZE, size, None) or FETCH_BYTES,
        value=value_format(reader),
    )
    reader.finish()
    _check_limits(result)
    if "group" in (start.kind, end.kind) and result.group is None:
        raise OptionError("startingOffsets=group needs the name of the group: set kafka.group.id")
    return result


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write."""
    reader = OptionReader(options)
    result = SinkOptions(
        access=_access(reader),
        topic=reader.text("topic"),
        include_headers=reader.flag("includeHeaders", False),
        delivery=reader.choice("delivery", _DELIVERY, "at-least-once"),
        transactional_id=reader.text("kafka.transactional.id"),
        staging=reader.text("stagingLocation"),
        compression=reader.choice("kafka.compression.type", {name: name for name in _CODECS}, "none"),
        acks=reader.choice("kafka.acks", {"all": -1, "-1": -1, "1": 1, "0": 0}, -1),
        batch_bytes=reader.convert("kafka.batch.size", A_SIZE, size, None) or BATCH_BYTES,
        txn_app_id=reader.text("txnAppId"),
        txn_version=reader.convert("txnVersion", "a whole number, 0 or above", not_negative, None),
        local_ingest=reader.flag("localIngest", True),
        remote_ingest=reader.flag("remoteIngest", True),
    )
    reader.finish()
    if (result.txn_app_id is None) != (result.txn_version is None):
        raise OptionError("txnAppId and txnVersion go together: the name of the writer, and the number of its batch")
    if result.txn_app_id is not None and result.delivery != "exactly-once":
        raise OptionError("txnAppId needs delivery=exactly-once: rows without a transaction cannot be known again")
    if result.delivery == "exactly-once" and result.acks != -1:
        raise OptionError("delivery=exactly-once needs kafka.acks=all")
    return result


_ISOLATION = {"read_committed": True, "read_uncommitted": False}
_DELIVERY: Mapping[str, Delivery] = {"at-least-once": "at-least-once", "exactly-once": "exactly-once"}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def access_of(options: Mapping[str, str]) -> Access:
    """How to reach a cluster, from options that have nothing else."""
    reader = OptionReader(options)
    found = _access(reader)
    reader.finish()
    return found


def _access(reader: OptionReader) -> Access:
    bootstrap = reader.text("kafka.bootstrap.servers")
    if not bootstrap:
        raise OptionError(
            "option kafka.bootstrap.servers is missing: any broker, host:port, several with commas"
            + reader.suggestion("kafka.bootstrap.servers")
        )
    return Access(
        bootstrap,
        reader.text("kafka.client.id") or CLIENT_ID,
        (reader.positive("kafka.request.timeout.ms") or 60_000) / 1000,
        _security(reader),
    )


def _security(reader: OptionReader) -> Security:
    said = {name: reader.text(f"kafka.{name}") for name in MEANINGS}
    try:
        return security_of({name: value for name, value in said.items() if value is not None}, "kafka.")
    except InvalidSettingError as fault:
        raise OptionError(f"option {fault}") from None


def _subscription(reader: OptionReader) -> Subscription:
    names, pattern, assigned = (reader.text(name) for name in ("subscribe", "subscribePattern", "assign"))
    chosen = [text for text in (names, pattern, assigned) if text is not None]
    if len(chosen) != 1:
        found = "there are several" if chosen else "there is none"
        suggestion = "" if chosen else reader.suggestion("subscribe", "subscribePattern", "assign", topic="subscribe")
        raise OptionError(f"exactly one of subscribe, subscribePattern and assign is needed; {found}{suggestion}")
    if names is not None:
        topics = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic")
        return Subscription(names=topics)
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as fault:
            raise OptionError(f"option subscribePattern {pattern!r} is not a regular expression: {fault}") from None
        return Subscription(pattern=pattern)
    assert assigned is not None
    return Subscription(assigned=parse_assignment(assigned, "option assign"))


def _start(reader: OptionReader, is_stream: bool) -> Bound:
    if_too_late = reader.choice("startingOffsetsByTimestampStrategy", _TOO_LATE, "error")
    bound = _bound(reader, "starting", if_too_late)
    if bound is None:
        return Bound("latest" if is_stream else "earliest")
    if not is_stream and (bound.kind == "latest" or LATEST in _values(bound)):
        raise OptionError("a batch read cannot start at latest: no records follow it")
    return bound


def _end(reader: OptionReader, is_stream: bool) -> Bound:
    bound = _bound(reader, "ending", "latest")
    if bound is None:
        return Bound("latest")
    if is_stream:
        raise OptionError(
            "endingOffsets is for batch reads; a stream does not end (to end it, use trigger(availableNow=True))"
        )
    if bound.kind == "group":
        raise OptionError("a batch read cannot end at group: endingOffsets is latest, or offsets as JSON")
    if bound.kind == "earliest" or EARLIEST in _values(bound):
        raise OptionError("a batch read cannot end at earliest: no records precede it")
    return bound


_WORDS: Mapping[str, Literal["earliest", "latest", "group"]] = {
    "earliest": "earliest",
    "latest": "latest",
    "group": "group",
}
_TOO_LATE: Mapping[str, Literal["error", "latest"]] = {"error": "error", "latest": "latest"}


def _bound(reader: OptionReader, side: str, if_too_late: Literal["error", "latest"]) -> Bound | None:
    """The bound; as in Spark's connector, one timestamp comes before many, and these before offsets."""
    timestamp = reader.convert(f"{side}Timestamp", "milliseconds since 1970", not_negative, None)
    timestamps = reader.text(f"{side}OffsetsByTimestamp")
    offsets = reader.text(f"{side}Offsets")
    if timestamp is not None:
        return Bound("timestamp", timestamp=timestamp, if_too_late=if_too_late)
    if timestamps is not None:
        by_partition = parse(timestamps, f"option {side}OffsetsByTimestamp")
        for at, millis in by_partition.items():
            if millis < 0:
                raise OptionError(f"option {side}OffsetsByTimestamp: {at} needs milliseconds since 1970, not {millis}")
        return Bound("timestamps", by_partition, if_too_late=if_too_late)
    if offsets is None:
        return None
    word = _WORDS.get(offsets.strip().lower())
    if word is not None:
        return Bound(word)
    by_partition = parse(offsets, f"option {side}Offsets (earliest, latest, group or JSON)")
    for at, offset in by_partition.items():
        if offset < EARLIEST:
            raise OptionError(f"option {side}Offsets: {offset} is not an offset of {at}; -2 is earliest, -1 is latest")
    return Bound("offsets", by_partition)


def _values(bound: Bound) -> list[int]:
    offsets: Offsets = bound.by_partition if bound.kind == "offsets" else {}
    return list(offsets.values())


def _check_limits(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
    if options.target_batch_time_s is not None and most is None and options.max_bytes_per_trigger is None:
        raise OptionError("targetBatchTime needs maxBytesPerTrigger or maxOffsetsPerTrigger: the most that it may take")
