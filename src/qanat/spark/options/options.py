"""What `.option(...)` may say to the source and to the sink: Spark's Kafka connector's names, and a few more. Pure.

An option that does not exist, or has a value of the wrong kind, is an error that names the nearest right one.
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
from qanat.spark.options.option_reader import A_SIZE, Given, OptionError, not_negative, size
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
    """How brokers are reached."""

    bootstrap: str
    client_id: str = CLIENT_ID
    timeout_s: float = 60.0
    security: Security = UNPROTECTED


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a topic is read."""

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
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    group: str | None = None
    is_committed_only: bool = True
    fetch_bytes: int = FETCH_BYTES
    value: ValueFormat | None = None


Delivery = Literal["at-least-once", "exactly-once"]


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How rows are written."""

    access: Access
    topic: str | None = None
    include_headers: bool = False
    delivery: Delivery = "at-least-once"
    transactional_id: str | None = None
    staging: str | None = None
    compression: str = "none"
    acks: int = -1
    batch_bytes: int = BATCH_BYTES


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options of a read; raises `OptionError` or `OffsetsError` saying which one is wrong."""
    given = Given(options)
    access = _access(given)
    subscription = _subscription(given)
    start = _start(given, is_stream)
    end = _end(given, is_stream)
    result = SourceOptions(
        access=access,
        subscription=subscription,
        start=start,
        end=end,
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        min_partitions=given.positive("minPartitions"),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        max_offsets_per_trigger=given.positive("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=given.convert("maxBytesPerTrigger", A_SIZE, size, None),
        min_offsets_per_trigger=given.positive("minOffsetsPerTrigger"),
        max_trigger_delay_s=given.duration("maxTriggerDelay", 900.0),
        group=given.text("kafka.group.id"),
        is_committed_only=given.choice("kafka.isolation.level", _ISOLATION, True),
        fetch_bytes=given.convert("kafka.fetch.max.bytes", A_SIZE, size, None) or FETCH_BYTES,
        value=value_format(given),
    )
    given.finish()
    _check_limits(result)
    if "group" in (start.kind, end.kind) and result.group is None:
        raise OptionError("startingOffsets=group needs to know which one: set kafka.group.id")
    return result


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write."""
    given = Given(options)
    result = SinkOptions(
        access=_access(given),
        topic=given.text("topic"),
        include_headers=given.flag("includeHeaders", False),
        delivery=given.choice("delivery", _DELIVERY, "at-least-once"),
        transactional_id=given.text("kafka.transactional.id"),
        staging=given.text("stagingLocation"),
        compression=given.choice("kafka.compression.type", {name: name for name in _CODECS}, "none"),
        acks=given.choice("kafka.acks", {"all": -1, "-1": -1, "1": 1, "0": 0}, -1),
        batch_bytes=given.convert("kafka.batch.size", A_SIZE, size, None) or BATCH_BYTES,
    )
    given.finish()
    if result.delivery == "exactly-once" and result.acks != -1:
        raise OptionError("delivery=exactly-once needs kafka.acks=all")
    return result


_ISOLATION = {"read_committed": True, "read_uncommitted": False}
_DELIVERY: Mapping[str, Delivery] = {"at-least-once": "at-least-once", "exactly-once": "exactly-once"}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def access_of(options: Mapping[str, str]) -> Access:
    """How brokers are reached, for somebody who has only that to say."""
    given = Given(options)
    found = _access(given)
    given.finish()
    return found


def _access(given: Given) -> Access:
    bootstrap = given.text("kafka.bootstrap.servers")
    if not bootstrap:
        raise OptionError(
            "option kafka.bootstrap.servers is missing: any broker, host:port, several with commas"
            + given.meant("kafka.bootstrap.servers")
        )
    return Access(
        bootstrap,
        given.text("kafka.client.id") or CLIENT_ID,
        (given.positive("kafka.request.timeout.ms") or 60_000) / 1000,
        _security(given),
    )


def _security(given: Given) -> Security:
    said = {name: given.text(f"kafka.{name}") for name in MEANINGS}
    try:
        return security_of({name: value for name, value in said.items() if value is not None}, "kafka.")
    except InvalidSettingError as fault:
        raise OptionError(f"option {fault}") from None


def _subscription(given: Given) -> Subscription:
    names, pattern, assigned = (given.text(name) for name in ("subscribe", "subscribePattern", "assign"))
    chosen = [text for text in (names, pattern, assigned) if text is not None]
    if len(chosen) != 1:
        told = "several were given" if chosen else "none of them was given"
        meant = "" if chosen else given.meant("subscribe", "subscribePattern", "assign", topic="subscribe")
        raise OptionError(f"exactly one of subscribe, subscribePattern and assign says what is read; {told}{meant}")
    if names is not None:
        topics = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic")
        return Subscription(names=topics)
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as fault:
            raise OptionError(f"option subscribePattern {pattern!r} is no regular expression: {fault}") from None
        return Subscription(pattern=pattern)
    assert assigned is not None
    return Subscription(assigned=parse_assignment(assigned, "option assign"))


def _start(given: Given, is_stream: bool) -> Bound:
    if_too_late = given.choice("startingOffsetsByTimestampStrategy", _TOO_LATE, "error")
    bound = _bound(given, "starting", if_too_late)
    if bound is None:
        return Bound("latest" if is_stream else "earliest")
    if not is_stream and (bound.kind == "latest" or LATEST in _values(bound)):
        raise OptionError("a batch read cannot start at latest: nothing lies behind it")
    return bound


def _end(given: Given, is_stream: bool) -> Bound:
    bound = _bound(given, "ending", "latest")
    if bound is None:
        return Bound("latest")
    if is_stream:
        raise OptionError(
            "endingOffsets is for batch reads; a stream goes on (to stop it, use trigger(availableNow=True))"
        )
    if bound.kind == "group":
        raise OptionError("a batch read cannot end at group: endingOffsets is latest, or offsets as JSON")
    if bound.kind == "earliest" or EARLIEST in _values(bound):
        raise OptionError("a batch read cannot end at earliest: nothing lies before it")
    return bound


_WORDS: Mapping[str, Literal["earliest", "latest", "group"]] = {
    "earliest": "earliest",
    "latest": "latest",
    "group": "group",
}
_TOO_LATE: Mapping[str, Literal["error", "latest"]] = {"error": "error", "latest": "latest"}


def _bound(given: Given, side: str, if_too_late: Literal["error", "latest"]) -> Bound | None:
    """As in Spark's connector, one timestamp goes before many, and these before offsets."""
    timestamp = given.convert(f"{side}Timestamp", "milliseconds since 1970", not_negative, None)
    timestamps = given.text(f"{side}OffsetsByTimestamp")
    offsets = given.text(f"{side}Offsets")
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
            raise OptionError(f"option {side}Offsets: {offset} is no offset of {at}; -2 is earliest, -1 is latest")
    return Bound("offsets", by_partition)


def _values(bound: Bound) -> list[int]:
    offsets: Offsets = bound.by_partition if bound.kind == "offsets" else {}
    return list(offsets.values())


def _check_limits(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
