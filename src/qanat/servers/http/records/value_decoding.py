"""Which reader of values a request gets: by its own parameters, or by the topic's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qanat.servers.http.inputs import Parameters
from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Exchange
    from qanat.wire.value_formats import ValueReader


class DecodingQuery(Parameters, frozen=True):
    """How values are written; without `value_format` as the topic's settings say."""

    value_format: Literal["avro", "protobuf", "none"] | None = None
    """Show values of Avro or Protobuf as JSON; `none` leaves them as they are, whatever the topic's settings say."""
    value_schema: Annotated[str, Meta(max_length=700_000)] = ""
    """Avro's schema as JSON; of Protobuf the base64 of a file descriptor set (`protoc --descriptor_set_out`)."""
    value_message: Annotated[str, Meta(max_length=1000)] = ""
    """The message of Protobuf, where the descriptor has several."""
    value_framing: Literal["none", "confluent"] = "none"
    """`confluent` where values begin with the prefix of a schema registry."""


def reader_of(exchange: Exchange, topic: str, query: DecodingQuery) -> ValueReader | None:
    """The reader of a topic's values; None where they stay as they are. Raises a problem where a schema is wrong."""
    settings = exchange.context.broker.metadata.image.overrides(topic)
    if query.value_format == "none" or (query.value_format is None and "value.format" not in settings):
        return None
    from qanat.model.errors import MalformedMessageError
    from qanat.wire.value_formats import ValueFormat, value_reader

    if query.value_format is not None:
        form: ValueFormat | None = ValueFormat(
            query.value_format, query.value_schema, query.value_message, query.value_framing
        )
    else:
        form = ValueFormat.of_settings(settings)
    try:
        return None if form is None else value_reader(form)
    except MalformedMessageError as fault:
        if query.value_format is None:
            return None  # Settings are checked when they are set; another version may have checked less.
        raise Problem(400, str(fault), parameter="value_schema") from None
