"""Settings of a consumer application: defaults, then a YAML file, then the environment, then flags; later ones win.

A setting `consumer.topic` is the variable CONSUMER_TOPIC and the flag --topic; names in files may have dashes for dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from qanat.app.settings.faults import Faults
from qanat.app.settings.settings_file import read_file
from qanat.app.settings.source_value import SourceValue
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import OrUnlimited, Settings
from qanat.model.spelling import did_you_mean
from qanat.model.topic_names import name_problem

Port = Annotated[int, Meta(ge=0, le=65535)]
BrokerPort = Annotated[int, Meta(ge=1, le=65535)]
Name = Annotated[str, Meta(max_length=249)]
TOPICS_MAX = 100


class ConsumerSettings(Settings, frozen=True):
    """The settings of one application."""

    consumer_topic: str = ""
    """The topic, or several with commas."""
    consumer_type: Name = ""
    """What the application is called in its answers, its metrics and at the broker; the topic unless it is given."""
    consumer_group: Name = ""
    """The consumer group. Applications of one group share the partitions; without a group each has everything."""
    consumer_port: Port = 8082
    """Port of the REST server; 0 takes a free one."""
    consumer_host: str = "127.0.0.1"
    """Address of the REST server; 0.0.0.0 for all addresses of this machine."""
    consumer_allowed_hosts: str = ""
    """Names by which clients may call the REST server, with commas, besides addresses and names without a dot."""
    broker_host: str = "localhost"
    """Host of the broker."""
    broker_port: BrokerPort = 9092
    """Port of the broker: its Kafka listener, or `push.port`."""
    storage_data_dir: str = "./consumer-data"
    """Directory of all data."""
    storage_segment_bytes: Annotated[int, Meta(ge=1024, le=2**31 - 1)] = 128 * 1024 * 1024
    """A segment is closed before it would grow beyond this."""
    storage_retention_bytes: OrUnlimited = -1
    """The oldest segments of a partition are deleted while it is larger than this; -1 keeps them."""
    storage_retention_ms: OrUnlimited = -1
    """Segments whose newest record is older than this are deleted; -1 keeps them."""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(name for part in self.consumer_topic.split(",") if (name := part.strip()))

    @property
    def type(self) -> str:
        return self.consumer_type or ",".join(self.topics)

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        return tuple(name for part in self.consumer_allowed_hosts.split(",") if (name := part.strip().lower()))


NAMES = ConsumerSettings.__struct_encode_fields__


def variable_of(name: str) -> str:
    """
    >>> variable_of("storage.data.dir")
    'STORAGE_DATA_DIR'
    """
    return name.upper().replace(".", "_")


def load(flags: Iterable[SourceValue], file: Path | None, environment: Mapping[str, str]) -> ConsumerSettings:
    """Read every source; raises `InvalidSettingError` for the first error."""
    values: dict[str, SourceValue] = {}
    for value in read_file(file, environment, Faults()) if file is not None else ():
        name = value.name.replace("-", ".")
        if name not in NAMES:
            hint = did_you_mean(name, NAMES, f"known are {', '.join(NAMES)}")
            raise InvalidSettingError(f"unknown setting {value.name!r} ({value.origin}){hint}")
        if name in values:
            raise InvalidSettingError(f"{name} is given twice: {values[name].origin} and {value.origin}")
        values[name] = SourceValue(name, value.text, value.origin)
    for name in NAMES:
        variable = variable_of(name)
        if variable in environment:
            values[name] = SourceValue(name, environment[variable], f"environment variable {variable}")
    values |= {value.name: value for value in flags}
    for one in values.values():
        try:
            ConsumerSettings.check_one(one.name, one.text)
        except InvalidSettingError as fault:
            raise one.wrong(str(fault).partition(": ")[2].rpartition(": ")[2]) from None
    settings = ConsumerSettings.parse({name: one.text for name, one in values.items()})
    _check_topics(settings, values.get("consumer.topic"), environment)
    _check_texts(settings, values)
    return settings


def _check_topics(settings: ConsumerSettings, value: SourceValue | None, environment: Mapping[str, str]) -> None:
    if value is None or not settings.topics:
        near = [name for name in environment if name.startswith("CONSUMER_") and name not in map(variable_of, NAMES)]
        typo = f"; {near[0]} is no setting" if near else ""
        raise InvalidSettingError(f"no topic is named: set CONSUMER_TOPIC, consumer.topic in a file, or --topic{typo}")
    for topic in settings.topics:
        fault = name_problem(topic)
        if fault is not None:
            raise value.wrong(fault)
    if len(settings.topics) > TOPICS_MAX or len(set(settings.topics)) < len(settings.topics):
        raise value.wrong(f"name each topic once, and at most {TOPICS_MAX}")


def _check_texts(settings: ConsumerSettings, values: Mapping[str, SourceValue]) -> None:
    for name in ("broker.host", "storage.data.dir", "consumer.host"):
        if name in values and not values[name].text.strip():
            raise values[name].wrong("it is empty")
    for name in ("consumer.type", "consumer.group"):
        if name in values and not values[name].text.isprintable():
            raise values[name].wrong("it has characters that cannot be printed")
    for name in ("broker.host", "consumer.host"):
        if name in values and not _is_host(values[name].text):
            port = name.replace("host", "port")
            raise values[name].wrong(f"a name or an address is expected, without a scheme; {port} has the port")


def _is_host(text: str) -> bool:
    """Whether it may be a name or an address; of colons only addresses have several.

    >>> [_is_host(text) for text in ("till-1.shop", "10.0.0.1", "::1", "http://x", "x:9092", "a b")]
    [True, True, True, False, False, False]
    """
    return text.count(":") != 1 and not any(letter.isspace() or letter in "/@[]?#," for letter in text)
