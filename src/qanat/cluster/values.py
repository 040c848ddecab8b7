"""The values of the metadata store: JSON that a person can read in the database.

Rule 1: every value carries the `version` of its form. Brokers of two versions run side by side during an upgrade: a
        reader ignores fields that it does not know, so a field may be added (with a default) but never removed, renamed
        or given another meaning. Any other change is a new level of `format_levels`.
Rule 2: a broker that rewrites a value that it did not create whole must not drop unknown fields; today every value is
        only ever rewritten by the version that the whole cluster runs.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from qanat.model.errors import QanatError
from qanat.model.ids import TopicId

NO_LEADER = -1
NEVER = -1


class UnreadableValueError(QanatError):
    """A value in the metadata store that does not have the form of its key."""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's identity, written by the first broker."""

    version: int = 1
    cluster_id: str


class ClusterFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's format level."""

    version: int = 1
    level: int


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """The controller. Its epoch is the key's create revision."""

    version: int = 1
    node_id: int


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: `partitions[i]` are the node ids of partition i's replicas, the preferred leader first."""

    version: int = 1
    name: str
    topic_id: str
    partitions: tuple[tuple[int, ...], ...]
    is_internal: bool = False
    grown: tuple[tuple[int, int], ...] = ()
    """Partitions that were added later: from which number on, and a revision at which they did not exist yet."""

    @property
    def identity(self) -> TopicId:
        return TopicId.parse(self.topic_id)


class TopicReference(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the topic that has an id."""

    version: int = 1
    name: str


SINCE_NOW = -1
"""In place of a revision: that of the commit which writes the value."""


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The overrides of a topic, under Kafka's names; everything else is default."""

    version: int = 1
    overrides: dict[str, str]
    flush_set_at: int = 0
    """The revision at which the setting that flushes records before they are acknowledged was last changed."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The overrides of one broker, or of all."""

    version: int = 1
    overrides: dict[str, str]
    flush_set_at: int = 0
    """As for a topic, for the default of all topics."""


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The overrides of a group, whether or not the group exists."""

    version: int = 1
    overrides: dict[str, str]


class ClientMetricsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription to metrics of clients, by its settings."""

    version: int = 1
    overrides: dict[str, str]


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a broker."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A registered broker. Its epoch is the key's create revision; `incarnation` names the process."""

    version: int = 1
    node_id: int
    epoch: int = 0
    """Written by version 1 of this value and never read."""
    incarnation: str
    listeners: tuple[Listener, ...]
    rack: str | None = None
    directory_id: str = ""
    """Its data directory, of which it holds the lock: a registration with the same one is of a process that has
    ended."""
    inter_broker: Listener | None = None
    """Its address for other brokers; None where it has no such listener."""
    is_stopping: bool = False
    """Whether it wants to lead nothing any more, because it is about to stop."""
    is_clean: bool = True
    """Whether every process ended by a clean shutdown; for brokers that do not know `sound_since`."""
    sound_since: int | None = None
    """The revision since which nothing that was not flushed is lost: after a crash, `SINCE_NOW`, which is this
    registration's own, and later what that was. None from brokers that do not know it: then `is_clean` counts."""
    levels: tuple[int, int] = (1, 1)
    """The first and the last format level that it knows."""
    stopped_at: int = NEVER
    """The revision at which its data directory was last stopped cleanly; `NEVER` after a crash."""
    running_since: int = 0
    """The first epoch of the process, where this registration is not its first: it has lost nothing since."""
    proves_logs: bool = False
    """Whether it answers GetReplicaLogInfo: brokers that do not are trusted without proofs, as before."""


class NodeDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The data directory of a node. It stays when the node goes; another one means that the node has lost its data."""

    version: int = 1
    directory_id: str
    is_first: bool = False
    """Whether none was known before: it replaces nothing, so nothing is lost."""


class ReplicaFault(msgspec.Struct, frozen=True, array_like=True):
    """A faulty replica: damaged ranges, or a log that cannot be opened at all."""

    topic_id: str
    partition: int
    ranges: tuple[tuple[int, int], ...] = ()
    """Damaged offsets, each from its first to its next; none where the log is offline."""
    reason: str = ""

    @property
    def is_offline(self) -> bool:
        return not self.ranges


class ReplicaFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Every faulty replica of a broker, under the broker's lease; no key where there is none."""

    version: int = 1
    broker_epoch: int
    """Of the process that reports them: reports of an earlier one do not count."""
    faults: tuple[ReplicaFault, ...]


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A witness's attempt to connect to a broker was refused."""

    version: int = 1
    witness: int
    broker_epoch: int
    """The registration that this is about; it does not concern a later one."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that the failure detector evicted."""

    version: int = 1
    incarnation: str
    """The process. Where it registers again, it was alive, and the eviction was wrong."""
    times: int = 1
    """How often in a row it was evicted wrongly, with this one."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A replica that has every record, as of a broker's epoch (or any later revision at which it was registered)."""

    node_id: int
    since: int


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's leader, replicas and in-sync set.

    `replicas` are all brokers that are to hold it, the preferred leader first; while it is being moved, those that are
    to be removed come last and are in `removing` as well.
    """

    version: int = 1
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[Member, ...]
    eligible: tuple[Member, ...] = ()
    """Members that dropped out while too few were left for records to be committed: they miss none (KIP-966)."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_recovered: bool = False
    """Whether the leader was elected although records may be missing."""
    damaged: tuple[int, ...] = ()
    """Replicas that are repaired from the leader: until then they are members of no set."""

    @property
    def in_sync_nodes(self) -> tuple[int, ...]:
        return tuple(member.node_id for member in self.in_sync)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after a reassignment."""
        return tuple(node_id for node_id in self.replicas if node_id not in self.removing)


class _ShortState(msgspec.Struct, frozen=True, array_like=True):
    """A `PartitionState` from level 2 on: an array, because there may be very many of them."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[Member, ...]
    eligible: tuple[Member, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_recovered: bool
    damaged: tuple[int, ...] = ()


class ProducerIdBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The first producer id that was never allocated."""

    version: int = 1
    next: int


class AclEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL, in Kafka's names. A name that this version does not know is of a later one (`broker.security`)."""

    version: int = 1
    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class ScramCredential(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers know of a user's password: enough to check it, not to log in with."""

    version: int = 1
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers know of an API key: its hash, and whom it stands for."""

    version: int = 1
    user: str
    hash: bytes
    note: str = ""
    created_ms: int = 0
    expires_ms: int = 0
    """0 is never."""

    def __repr__(self) -> str:
        return f"ApiKey(user={self.user!r})"


class ScramSecret(msgspec.Struct, frozen=True, kw_only=True):
    """What salts of unknown users are made from, so that all brokers answer alike for a name."""

    version: int = 1
    secret: bytes

    def __repr__(self) -> str:
        return "ScramSecret()"


Value = TypeVar("Value", bound=msgspec.Struct)


_SHORT_FROM = 2
_SHORT_FIELDS = _ShortState.__struct_fields__


def encode(value: msgspec.Struct, level: int = 1) -> bytes:
    """The bytes to store, in the form of a format level."""
    if level >= _SHORT_FROM and isinstance(value, PartitionState):
        return msgspec.json.encode(_ShortState(*(getattr(value, name) for name in _SHORT_FIELDS)))
    return msgspec.json.encode(value)


def decode(kind: type[Value], data: bytes) -> Value:
    try:
        if data[:1] == b"[" and kind is PartitionState:
            short = msgspec.json.decode(data, type=_ShortState)
            return kind(**{name: getattr(short, name) for name in _SHORT_FIELDS})
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise UnreadableValueError(f"the metadata store holds a {kind.__name__} that cannot be read: {error}") from None
