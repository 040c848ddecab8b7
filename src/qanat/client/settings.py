"""Settings of every client: by Python's names, or by Kafka's in a dictionary. Pure.

Each client has a struct under `ClientSettings`: a field is a setting, its default included. `retry_backoff_ms` and
`retry.backoff.ms` are the same one. Values may be texts, as in a file of properties, and Java's class names stand for
what they name. An unknown name is an error that names the nearest one: a misspelled setting must not be ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from qanat.client.errors import UnknownSettingError
from qanat.connection.security import MEANINGS, UNPROTECTED, Security, security_of
from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

Address = tuple[str, int]
Servers = str | Sequence[str] | Mapping[str, object]
"""`"host:port,host:port"`, a list of such, or a dictionary of settings with `bootstrap.servers`."""

_SECURITY = {name.replace(".", "_"): name for name in MEANINGS}
_JAVA = {
    "org.apache.kafka.common.serialization.ByteArray": "bytes",
    "org.apache.kafka.common.serialization.Bytes": "bytes",
    "org.apache.kafka.common.serialization.ByteBuffer": "bytes",
    "org.apache.kafka.common.serialization.String": "str",
    "org.apache.kafka.common.serialization.Short": "int16",
    "org.apache.kafka.common.serialization.Integer": "int32",
    "org.apache.kafka.common.serialization.Long": "int64",
    "org.apache.kafka.common.serialization.Float": "float32",
    "org.apache.kafka.common.serialization.Double": "float64",
    "org.apache.kafka.common.serialization.UUID": "uuid",
    "org.apache.kafka.common.serialization.Boolean": "bool",
    "org.apache.kafka.common.serialization.Void": "none",
    "org.apache.kafka.connect.json.Json": "json",
    "org.springframework.kafka.support.serializer.Json": "json",
    "io.confluent.kafka.serializers.KafkaAvro": "avro",
    "io.confluent.kafka.serializers.KafkaJsonSchema": "json_schema",
    "io.confluent.kafka.serializers.protobuf.KafkaProtobuf": "protobuf",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""What Java's class names stand for; serializers and deserializers by their common part."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every client can be told. Subclasses add their own fields."""

    bootstrap_servers: tuple[Address, ...] = ()
    client_id: str = "qanat"
    security: Security = UNPROTECTED
    """From `security.protocol`, `sasl.*` and `ssl.*`."""
    request_timeout_ms: int = 30_000
    """How long a broker may take to answer a request."""
    bootstrap_timeout_ms: int = 10_000
    """How long a cluster that was never reached is tried: afterwards its address counts as wrong."""
    retry_backoff_ms: int = 100
    """The pause before the first retry; it doubles from retry to retry, with jitter."""
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    """How long leaders and partitions are trusted while nothing fails."""

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """Other names of fields, for example librdkafka's, in Python's spelling."""
    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {"reconnect_backoff_ms", "reconnect_backoff_max_ms", "connections_max_idle_ms", "metric_reporters", "log_level"}
    )
    """Settings of other clients that are accepted without effect, in Python's spelling."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not value >= 0:  # Also NaN.
                raise InvalidSettingError(f"{name} is {value}, but must not be negative")


S = TypeVar("S", bound=ClientSettings)


def read_settings(kind: type[S], servers: Servers, given: Mapping[str, object]) -> S:
    """The settings of a client: from its address or dictionary, and from its keyword arguments, which win.

    Raises `UnknownSettingError` and `InvalidSettingError`.
    """
    from qanat.connection.cluster import parse_bootstrap

    named: dict[str, object] = dict(servers) if isinstance(servers, Mapping) else {"bootstrap_servers": servers}
    fields: dict[str, Any] = {}
    protection: dict[str, str] = {}
    for name, value in (named | dict(given)).items():
        found = _known_name(kind, name)
        if found in _SECURITY:
            protection[_SECURITY[found]] = _text(value)
        elif found == "bootstrap_servers":
            fields[found] = tuple(_addresses(value, parse_bootstrap))
        elif found not in kind.IGNORED:
            fields[found] = _converted(kind, found, name, java_value(name, value))
    if not fields.get("bootstrap_servers"):
        raise InvalidSettingError("bootstrap.servers is missing: give a broker's address, host:port")
    if protection:
        fields["security"] = security_of(protection)
    return kind(**fields)


def settings_for(
    kind: type[ClientSettings], kinds: Sequence[type[ClientSettings]], given: Mapping[str, object]
) -> dict[str, object]:
    """Settings for several kinds of clients, without those that only others have; what none has stays."""
    return {
        name: value
        for name, value in given.items()
        if _is_known(kind, _plain(kind, name)) or not any(_is_known(one, _plain(one, name)) for one in kinds)
    }


def _plain(kind: type[ClientSettings], name: str) -> str:
    plain = name.replace(".", "_").replace("-", "_")
    return kind.ALIASES.get(plain, plain)


def _is_known(kind: type[ClientSettings], plain: str) -> bool:
    is_field = plain in kind.__struct_fields__ and plain != "security"
    return is_field or plain in _SECURITY or plain in kind.IGNORED


def _known_name(kind: type[ClientSettings], name: str) -> str:
    """The field's name, or the security setting's, or an ignored one's."""
    plain = _plain(kind, name)
    if _is_known(kind, plain):
        return plain
    names = sorted({*kind.__struct_fields__, *_SECURITY, *kind.ALIASES} - {"security"})
    if "." in name:
        names = [one.replace("_", ".") for one in names]
    raise UnknownSettingError(
        f"there is no setting {name}{did_you_mean(name, names, 'see the page of client settings')}"
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _addresses(value: object, parse: Any) -> list[Address]:
    try:
        texts = [value] if isinstance(value, str) else [str(one) for one in value]  # type: ignore[attr-defined]
        return list(parse(",".join(texts)))
    except (ValueError, TypeError) as fault:
        raise InvalidSettingError(f"bootstrap.servers: {fault}") from None


def _converted(kind: type[ClientSettings], field: str, name: str, value: object) -> object:
    """The value in the field's type: texts become numbers and booleans."""
    wanted = _types(kind)[field]
    if wanted in (object, Any):
        return value
    try:
        return msgspec.convert(value, wanted, strict=False)
    except msgspec.ValidationError as fault:
        raise InvalidSettingError(f"{name} is {value!r}: {fault}") from None


def _types(kind: type[ClientSettings]) -> dict[str, Any]:
    return {one.name: one.type for one in msgspec.structs.fields(kind)}


def java_value(name: str, value: object) -> object:
    """What a Java class name stands for; every other value as it is. Raises `InvalidSettingError`."""
    if not isinstance(value, str) or value.count(".") < 2 or not value.split(".")[-1][:1].isupper():
        return value
    common = value.removesuffix("Deserializer").removesuffix("Serializer")
    found = _JAVA.get(value) or _JAVA.get(common)
    if found is None:
        raise InvalidSettingError(f"{name} is {value}, a Java class that has no counterpart here: give a Python object")
    return found
