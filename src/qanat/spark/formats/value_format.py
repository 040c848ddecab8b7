"""The value format of a read: format, schema, and what to do with misfits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qanat.model.errors import QanatError

Format = Literal["json", "avro", "protobuf", "csv", "text"]
Mode = Literal["PERMISSIVE", "FAILFAST", "DROPMALFORMED"]
FORMATS: tuple[Format, ...] = ("json", "avro", "protobuf", "csv", "text")
MODES: tuple[Mode, ...] = ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")


class SchemaError(QanatError):
    """A schema that is malformed, or has types without a column."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The format of values."""

    format: Format
    schema: str = ""
    """The columns of JSON and CSV as DDL, or Avro's JSON; protobuf has a descriptor instead."""
    descriptor: bytes = b""
    """A compiled file descriptor set."""
    message: str = ""
    is_framed: bool = False
    """Whether each value has the prefix of a schema registry."""
    delimiter: str = ","
    mode: Mode = "PERMISSIVE"
