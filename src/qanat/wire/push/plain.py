"""The plain dialect: a client whose first frame names no version sends `{"topic", "group"}` and gets DATA as JSON.

A record is `{"topic", "partition", "offset", "timestamp", "type": "M" or "D", "key", "value"}`. Keys and values that
are no UTF-8 come in `key_base64` and `value_base64`. A producer sends the same object; all it must name is a topic.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from qanat.model.errors import MalformedMessageError
from qanat.wire.push.control import Name

Timestamp = Annotated[int, Meta(ge=-1, le=2**63 - 1)]


class PlainRecord(Struct, frozen=True, omit_defaults=True):
    """A record of the dialect."""

    topic: Name
    partition: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    offset: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1
    timestamp: Timestamp = -1
    event: Annotated[str, Meta(max_length=16)] = msgspec.field(name="type", default="M")
    key: str | None = None
    value: str | None = None
    key_base64: str | None = None
    value_base64: str | None = None

    @property
    def key_bytes(self) -> bytes | None:
        return _bytes(self.key, self.key_base64)

    @property
    def value_bytes(self) -> bytes | None:
        return None if self.event.startswith("D") else _bytes(self.value, self.value_base64)


_decoder = msgspec.json.Decoder(PlainRecord)


def plain_record(
    topic: str, partition: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """The payload of DATA."""
    key_text, key_base64 = _text(key)
    value_text, value_base64 = _text(value)
    fields = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp}
    texts = {"key": key_text, "value": value_text, "key_base64": key_base64, "value_base64": value_base64}
    event = {"type": "D" if value is None else "M"}
    return msgspec.json.encode(fields | event | {name: text for name, text in texts.items() if text is not None})


def decode_plain(payload: memoryview) -> PlainRecord:
    """Read a producer's DATA; raises `MalformedMessageError`."""
    try:
        record = _decoder.decode(payload)
        _, _ = record.key_bytes, record.value_bytes  # Base64 that cannot be read is found here.
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Base64Error, ValueError) as fault:
        raise MalformedMessageError(f"the payload of DATA cannot be read: {fault}") from None
    return record


def _text(content: bytes | None) -> tuple[str | None, str | None]:
    if content is None:
        return None, None
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(content).decode()


def _bytes(text: str | None, base64: str | None) -> bytes | None:
    if base64 is not None:
        return b64decode(base64, validate=True)
    return None if text is None else text.encode()
