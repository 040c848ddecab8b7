"""Avro by fastavro, with or without a schema registry.

With a registry, messages are framed with the writer's schema id, and each is read by the schema it was written with
and resolved to the reader's. Without one, writer and reader have the same schema.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from qanat.client.errors import SerializationError
from qanat.client.serializers.port import Headers
from qanat.client.serializers.registry import SchemaRegistry, framed, registered, unframed


class Avro:
    """Avro of one schema, as a dictionary or JSON text."""

    def __init__(
        self, schema: dict[str, Any] | str, registry: SchemaRegistry | None = None, *, is_key: bool = False
    ) -> None:
        try:
            import fastavro
        except ImportError:
            raise SerializationError("Avro needs the package fastavro: pip install fastavro") from None
        described = json.loads(schema) if isinstance(schema, str) else schema
        try:
            self._schema = fastavro.parse_schema(described)
        except Exception as fault:  # noqa: BLE001 - fastavro raises KeyError, ValueError and its own
            raise SerializationError(f"the Avro schema is wrong: {fault}") from None
        self._text = json.dumps(described, separators=(",", ":"), sort_keys=True)
        self._registry = registry
        self._suffix = "-key" if is_key else "-value"
        self._fastavro: Any = fastavro
        self._writers: dict[int, Any] = {}

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        out = BytesIO()
        try:
            self._fastavro.schemaless_writer(out, self._schema, value)
        except Exception as fault:  # noqa: BLE001 - as above
            raise SerializationError(
                f"{topic}: the value does not fit its Avro schema: {self._why(value, fault)}"
            ) from None
        if self._registry is None:
            return out.getvalue()
        return framed(self._registry.schema_id(topic + self._suffix, self._text, "AVRO"), out.getvalue())

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        writer: Any = self._schema
        payload = data
        if self._registry is not None:
            schema_id, payload = unframed(topic, data)
            writer = self._writers.get(schema_id)
            if writer is None:
                text = registered(self._registry, topic, schema_id)
                writer = self._writers[schema_id] = self._fastavro.parse_schema(json.loads(text))
        source = BytesIO(payload)
        try:
            value = self._fastavro.schemaless_reader(source, writer, self._schema)
        except Exception as fault:  # noqa: BLE001 - as above
            raise SerializationError(f"{topic}: {len(data)} bytes are no Avro of this schema: {fault!r}") from None
        if source.tell() != len(payload):
            raise SerializationError(
                f"{topic}: {len(data)} bytes are no Avro of this schema: {len(payload) - source.tell()} are left over"
            )
        return value

    def _why(self, value: object, fault: Exception) -> str:
        """fastavro's reason with the field's path."""
        from fastavro.validation import ValidationError, validate

        try:
            validate(value, self._schema, raise_errors=True)
        except ValidationError as found:
            return str(found).replace("\n", " ")
        return str(fault)
