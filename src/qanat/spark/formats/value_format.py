"""What the options of a read say about values: their format, their schema, and what to do with misfits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qanat.model.errors import QanatError

Format = Literal["json", "avro", "protobuf", "csv", "text"]
Mode = Literal["PERMISSIVE", "FAILFAST", "DROPMALFORMED"]
FORMATS: tuple[Format, ...] = ("json", "avro", "protobuf", "csv", "text")
MODES: tuple[Mode, ...] = ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")


class SchemaError(QanatError):
    """A schema that cannot be read, or says something that has no columns."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How values are read."""

    format: Format
    schema: str = ""
    """Of JSON and CSV the columns as DDL, of Avro its JSON; protobuf has a descriptor instead."""
    descriptor: bytes = b""
    """A compiled file descriptor set."""
    message: str = ""
    is_framed: bool = False
    """Whether a schema registry's prefix stands before each value."""
    delimiter: str = ","
    mode: Mode = "PERMISSIVE"
