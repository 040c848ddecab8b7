"""What the keys of the metadata store hold: JSON that a person can read in the database.

Rule 1: every value carries the `version` of its form. Brokers of two versions run side by side
        during an upgrade: a reader ignores fields that it does not know, so a field may
        be added (with a default) but never removed, renamed or given another meaning.
Rule 2: who rewrites a value that it did not create whole must not drop unknown fields; today
        every value is only ever rewritten by the version that the whole cluster runs.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from qanat.model.errors import QanatError
from qanat.model.ids import TopicId


class UnreadableValueError(QanatError):
    """A value in the metadata store that is not what its key promises."""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's identity, made by the first broker."""

    version: int = 1
    cluster_id: str


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides for the cluster. Its epoch is the key's create revision."""

    version: int = 1
    node_id: int


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: `partitions[i]` are the node ids of partition i's replicas, the preferred leader first."""

    version: int = 1
    name: str
    topic_id: str
    partitions: tuple[tuple[int, ...], ...]
    is_internal: bool = False

    @property
    def identity(self) -> TopicId:
        return TopicId.parse(self.topic_id)


class TopicReference(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the topic that has an id."""

    version: int = 1
    name: str


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for a topic, under Kafka's names; everything else is default."""

    version: int = 1
    overrides: dict[str, str]


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for one broker, or for all."""

    version: int = 1
    overrides: dict[str, str]


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for a group, whether or not there is such a group."""

    version: int = 1
    overrides: dict[str, str]


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """An address under which a broker wants to be reached."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that lives. `epoch` grows with every registration; `incarnation` names the process."""

    version: int = 1
    node_id: int
    epoch: int
    incarnation: str
    listeners: tuple[Listener, ...]
    rack: str | None = None


class ProducerIdBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The first producer id that nobody has been given."""

    version: int = 1
    next: int


Value = TypeVar("Value", bound=msgspec.Struct)


def encode(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)


def decode(kind: type[Value], data: bytes) -> Value:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise UnreadableValueError(f"the metadata store holds a {kind.__name__} that cannot be read: {error}") from None
