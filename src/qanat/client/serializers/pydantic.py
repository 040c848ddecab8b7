"""JSON by pydantic models, where pydantic is installed. The model's own rules apply."""

from __future__ import annotations

from typing import Any

from qanat.client.errors import SerializationError
from qanat.client.serializers.json import unserializable
from qanat.client.serializers.port import Headers


def is_model(kind: object) -> bool:
    """Whether a type is a pydantic model; pydantic itself is not imported for that."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json") and hasattr(kind, "model_fields")


class Pydantic:
    """JSON of one model."""

    def __init__(self, model: Any) -> None:
        if not is_model(model):
            raise SerializationError(f"{model!r} is no pydantic model: give a subclass of pydantic.BaseModel")
        self._model = model

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._model):
            raise SerializationError(f"{topic}: expected {self._model.__name__}, got {type(value).__name__}")
        try:
            return str(value.model_dump_json()).encode()
        except ValueError as fault:  # pydantic's errors are ValueErrors.
            raise SerializationError(
                f"{topic}: {self._model.__name__} cannot be written as JSON: {fault} - at `{_place(value)}`"
            ) from None

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        try:
            return self._model.model_validate_json(data)
        except ValueError as fault:
            raise SerializationError(
                f"{topic}: {len(data)} bytes are no {self._model.__name__}: {_reason(fault)}"
            ) from None


def _place(value: Any) -> str:
    """The path of what pydantic cannot write, which its error does not have."""
    from pydantic_core import to_json

    try:
        return unserializable(value.model_dump(), to_json)[0]
    except ValueError:  # The model's own serializer fails.
        return "$"


def _reason(fault: ValueError) -> str:
    """The first error of pydantic, with its path as the other serializers write it."""
    errors = getattr(fault, "errors", None)
    if errors is None:
        return str(fault)
    first = errors()[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"{first['msg']} - at `${path}`"
