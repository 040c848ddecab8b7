"""Records as JSON: JSON values as JSON, text as text, anything else as base64.

Rule: batches are opened one after the other, and one that inflates far by a worker: whoever may write to a topic may
      write small batches that inflate to very much.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from qanat.connection.fetching import marked_batches
from qanat.model.errors import InflatesTooFarError
from qanat.wire.kafka.messages.fetch import PartitionData
from qanat.wire.record_reader import split_records
from qanat.wire.records import open_batch, wrapped

if TYPE_CHECKING:
    from qanat.wire.batch_header import BatchHeader, Buffer
    from qanat.wire.record_reader import RawRecord
    from qanat.wire.value_formats import ReadValue

Encoding = Literal["auto", "text", "base64"]
_NULL = Raw(b"null")
OPENED_HERE_BYTES = 512 * 1024
"""Batches that inflate to no more are opened on the loop."""


class Message(msgspec.Struct, gc=False):
    """A record as JSON."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970, -1 where there is none."""
    key: str | None
    value: Raw
    """JSON where it is JSON, otherwise a string: see `value_encoding`."""
    headers: dict[str, str | None]
    key_encoding: Literal["base64"] | UnsetType = UNSET
    """Only where the key is not text."""
    value_encoding: Literal["text", "base64"] | UnsetType = UNSET
    """Only where the value is not JSON."""
    value_format: str | UnsetType = UNSET
    """Only where the value was decoded: `avro` or `protobuf`."""
    value_bytes: str | UnsetType = UNSET
    """The bytes of a decoded value, as base64."""
    value_problem: str | UnsetType = UNSET
    """Why the value could not be decoded by the schema."""
    raw_headers: list[tuple[str, str | None]] | UnsetType = UNSET
    """Names and values as base64, in order: only where `headers` loses some, for repeated names or bytes."""


class OpenedBatches:
    """The visible records of a partition's answer from a position on, a batch at a time."""

    def __init__(self, data: PartitionData, position: int, inflated_bytes_max: int) -> None:
        if isinstance(data.records, list):
            data.records = memoryview(b"".join(data.records)) if len(data.records) != 1 else data.records[0]
        self._batches = marked_batches(data)
        self._position = position
        self._inflated_bytes_max = inflated_bytes_max
        self.next_offset = position
        """Behind the batches that were opened or passed."""

    async def next(self) -> Iterator[tuple[int, int, RawRecord]] | None:
        """Offset, timestamp and record of the next batch; None at the end."""
        opened = await self.next_payload()
        return None if opened is None else _records(*opened, self._position)

    async def next_payload(self) -> tuple[BatchHeader, Buffer] | None:
        """The next batch's header, and all its records uncompressed, those before the position included."""
        for batch, header, is_visible in self._batches:
            self.next_offset = max(self.next_offset, header.next_offset)
            if is_visible and header.next_offset > self._position:
                opened = _open_here(batch)
                if opened is None:
                    opened = await asyncio.to_thread(open_batch, batch, self._inflated_bytes_max)
                return opened
        return None


def _open_here(batch: memoryview) -> tuple[BatchHeader, Buffer] | None:
    """An opened batch; None where that is for a worker."""
    try:
        return open_batch(batch, max(OPENED_HERE_BYTES, len(batch)))
    except InflatesTooFarError:
        return None


def _records(header: BatchHeader, payload: Buffer, position: int) -> Iterator[tuple[int, int, RawRecord]]:
    fixed = header.max_timestamp if header.is_log_append_time else None
    for raw in split_records(payload, header.record_count, header.last_offset_delta):
        offset = header.base_offset + raw[2]
        if offset >= position:
            yield offset, wrapped(header.base_timestamp + raw[1]) if fixed is None else fixed, raw


def to_decoded_message(
    partition: int, offset: int, timestamp: int, raw: RawRecord, encoding: Encoding, found: ReadValue, value_format: str
) -> Message:
    """One record as JSON, with its value as a schema reads it."""
    if found.text is None or raw[4] is None:
        message = to_message(partition, offset, timestamp, raw, encoding)
        message.value_problem = found.problem
        return message
    plain = (*raw[:4], found.text, raw[5])
    message = to_message(partition, offset, timestamp, plain, "auto" if encoding == "base64" else encoding)
    message.value_format = value_format
    message.value_bytes = _base64(raw[4])
    return message


def to_message(partition: int, offset: int, timestamp: int, raw: RawRecord, encoding: Encoding) -> Message:
    """One record as JSON."""
    _, _, _, key, value, headers = raw
    message = Message(partition, offset, timestamp, None, _NULL, {})
    if headers:
        _set_headers(message, headers)
    if key is not None:
        try:
            if encoding == "base64":
                raise UnicodeDecodeError("utf-8", key, 0, 0, "base64 was requested")
            message.key = key.decode()
        except UnicodeDecodeError:
            message.key = _base64(key)
            message.key_encoding = "base64"
    if value is not None:
        _set_value(message, value, encoding)
    return message


def _set_value(message: Message, value: bytes, encoding: Encoding) -> None:
    if encoding != "base64":
        try:
            text = value.decode()
        except UnicodeDecodeError:
            pass
        else:
            if encoding == "auto" and (document := _document(value)) is not None:
                message.value = document
                return
            message.value = Raw(msgspec.json.encode(text))
            message.value_encoding = "text"
            return
    message.value = Raw(msgspec.json.encode(_base64(value)))
    message.value_encoding = "base64"


_VALID = msgspec.json.Decoder(Raw)


def _document(value: bytes) -> Raw | None:
    """A value that is JSON, on one line, as streams need it; None for other values."""
    try:
        _VALID.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Raw(msgspec.json.format(value, indent=-1) if b"\n" in value or b"\r" in value else value)


def _set_headers(message: Message, headers: tuple[tuple[bytes, bytes | None], ...]) -> None:
    try:
        found = {name.decode(): None if value is None else value.decode() for name, value in headers}
    except UnicodeDecodeError:
        found = {
            name.decode("utf-8", "replace"): None if value is None else value.decode("utf-8", "replace")
            for name, value in headers
        }
        is_exact = False
    else:
        is_exact = len(found) == len(headers)
    message.headers = found
    if not is_exact:
        message.raw_headers = [(_base64(name), None if value is None else _base64(value)) for name, value in headers]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
