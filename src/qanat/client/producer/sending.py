"""One record into the accumulator: serialized, placed, added. Runs in the caller's thread.

Everything that makes a send wait or fail as a whole is one flag, `is_stopped`: the memory is full, the producer is
closed, there is no transaction, this is a fork. The caller asks the I/O loop then.
"""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, Any

from qanat.client.errors import ClientError, SerializationError
from qanat.client.producer.accumulator import Accumulator, Line
from qanat.client.producer.partitioners import Partitioner, murmur2
from qanat.client.records import Receipt
from qanat.client.trace_headers import W3C, TraceHeaders, has_context, trace_headers
from qanat.model.ids import TopicPartition
from qanat.wire.key_hash import partition_of

if TYPE_CHECKING:
    from qanat.wire.record_reader import RawHeaders

GivenHeaders = Iterable[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]
Encode = Callable[..., bytes | None]
_INT64 = 1 << 63
_W3C = tuple(name.encode() for name in W3C)


class Plan:
    """A topic's partitions, as far as they are known."""

    __slots__ = ("_batch", "_sticky", "count", "lines", "topic")

    def __init__(self, topic: str, count: int) -> None:
        self.topic = topic
        self.lines: list[Line] = []
        self.count = 0
        self.grow(count)
        self._sticky = random.choice(self.lines)
        self._batch = 1

    def grow(self, count: int) -> None:
        """Add partitions that are new."""
        self.lines += [Line(TopicPartition(self.topic, number)) for number in range(len(self.lines), count)]
        self.count = len(self.lines)

    def sticky(self) -> Line:
        """The partition for records without a key: the same until its batch is full or has left."""
        line = self._sticky
        if line.opened == self._batch and line.open is not None:
            return line
        if line.opened < self._batch:
            return line
        free = [one for one in self.lines if not one.full and one is not line]
        line = self._sticky = random.choice(free or self.lines)
        self._batch = line.opened + (line.open is None)
        return line


class Sender:
    """The caller's half of a producer."""

    __slots__ = (
        "__weakref__",
        "_accumulator",
        "_encode_key",
        "_encode_value",
        "_has_context",
        "_is_murmur2",
        "_partitioner",
        "_takes_key_bytes",
        "_takes_value_bytes",
        "_trace_headers",
        "is_stopped",
        "plans",
    )

    def __init__(self, accumulator: Accumulator, partitioner: Partitioner, key: object, value: object) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._is_murmur2 = partitioner is murmur2
        self._encode_key = encoder_of(key)
        self._encode_value = encoder_of(value)
        self._takes_key_bytes = key is None or key == "bytes"
        self._takes_value_bytes = value is None or value == "bytes"
        self._has_context = has_context()
        self._trace_headers = trace_headers()
        self.plans: dict[str, Plan] = {}
        self.is_stopped = False
        _senders.add(self)

    def send(
        self,
        topic: str,
        value: object,
        key: object,
        headers: GivenHeaders,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Receipt | None:
        """Add a record; None where the caller must be admitted first."""
        plan = self.plans.get(topic)
        if plan is None or self.is_stopped or self._accumulator.is_full:
            return None
        if type(value) is not bytes or not self._takes_value_bytes:
            value = self._encode_value(topic, value, headers)
        if key is not None and (type(key) is not bytes or not self._takes_key_bytes):
            key = self._encode_key(topic, key, headers)
        if partition is not None:
            line = _given_line(plan, partition)
        elif self._is_murmur2:
            line = plan.sticky() if key is None else plan.lines[partition_of(key, plan.count)]
        else:
            line = self._placed(plan, key)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        else:
            _check_time(timestamp_ms)
        raw = _raw_headers(topic, headers) if headers else ()
        if self._has_context is not None and self._has_context() and self._trace_headers is not None:
            raw = _traced(raw, self._trace_headers())
        return self._accumulator.append(line, timestamp_ms, key, value, raw)

    def encoded(
        self, topic: str, value: object, key: object, headers: GivenHeaders, timestamp_ms: int | None
    ) -> tuple[bytes | None, bytes | None]:
        """Value and key as `send` would write them; raises what it would raise, but for the partition."""
        value_bytes = self._encode_value(topic, value, headers)
        key_bytes = None if key is None else self._encode_key(topic, key, headers)
        _check_time(timestamp_ms)
        self._accumulator.check_size(topic, key_bytes, value_bytes, _raw_headers(topic, headers))
        return value_bytes, key_bytes

    def _placed(self, plan: Plan, key: bytes | None) -> Line:
        number = self._partitioner(plan.topic, key, plan.count)
        if number < 0:
            return plan.sticky()
        return _given_line(plan, number)


def _given_line(plan: Plan, number: int) -> Line:
    check_partition(plan, number)
    return plan.lines[number]


def check_partition(plan: Plan, number: int) -> None:
    if not 0 <= number < plan.count:
        raise ClientError(
            f"topic {plan.topic} has no partition {number}: it has {plan.count}, from 0 to {plan.count - 1}"
        )


def _check_time(timestamp_ms: int | None) -> None:
    if timestamp_ms is not None and not 0 <= timestamp_ms < _INT64:
        raise SerializationError(f"timestamp_ms is {timestamp_ms}, but must be milliseconds since 1970")


def _raw_headers(topic: str, headers: GivenHeaders) -> RawHeaders:
    """Headers as they are written."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple([(name.encode(), _header_content(content)) for name, content in pairs])
    except (AttributeError, TypeError, ValueError) as fault:
        raise SerializationError(
            f"{topic}: headers are pairs of a text and bytes, for example [('trace', b'1')]: {fault}"
        ) from None


def _header_content(content: object) -> bytes | None:
    if isinstance(content, str):
        return content.encode()
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"{content!r:.100} is neither bytes nor a text")


def _traced(raw: RawHeaders, trace: TraceHeaders) -> RawHeaders:
    """With the trace of the caller, unless the record has one."""
    if not trace or any(name in _W3C for name, _ in raw):
        return raw
    return (*raw, *((name.encode(), value) for name, value in trace))


def encoder_of(spec: object) -> Encode:
    """The function of topic, value and headers that a serializer stands for."""
    if spec is None:
        return _encode_plain
    if callable(getattr(spec, "encode", None)) and not isinstance(spec, str | bytes | type):
        encode: Encode = spec.encode  # type: ignore[attr-defined]
        return encode
    return _found_encoder(spec)


def _found_encoder(spec: object) -> Encode:
    lookup: Any = import_module("qanat.client.serializers")
    encode: Encode = lookup.serializer(spec).encode
    return encode


def _encode_plain(topic: str, value: object, headers: object) -> bytes | None:
    """Bytes and texts as they are; everything else as its type says."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return _found_encoder(None)(topic, value, headers)


_senders: weakref.WeakSet[Sender] = weakref.WeakSet()


def _stop_all() -> None:
    """In the child of a fork: the next send asks, and finds out."""
    for sender in _senders:
        sender.is_stopped = True


os.register_at_fork(after_in_child=_stop_all)
