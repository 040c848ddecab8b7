"""What the keys of the metadata store hold: JSON that a person can read in the database.

Rule 1: every value carries the `version` of its form. Brokers of two versions run side by side
        during an upgrade: a reader ignores fields that it does not know, so a field may
        be added (with a default) but never removed, renamed or given another meaning. Whatever goes
        beyond that is a new level of `format_levels`.
Rule 2: who rewrites a value that it did not create whole must not drop unknown fields; today
        every value is only ever rewritten by the version that the whole cluster runs.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from qanat.model.errors import QanatError
from qanat.model.ids import TopicId

NO_LEADER = -1
NEVER = -1


class UnreadableValueError(QanatError):
    """A value in the metadata store that is not what its key promises."""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's identity, made by the first broker."""

    version: int = 1
    cluster_id: str


class ClusterFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's format level."""

    version: int = 1
    level: int


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
    grown: tuple[tuple[int, int], ...] = ()
    """Partitions that came later: from which number on, and a revision at which they were not yet there."""

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
    """What was set for a topic, under Kafka's names; everything else is default."""

    version: int = 1
    overrides: dict[str, str]
    flush_set_at: int = 0
    """The revision at which the setting that flushes records before they are acknowledged was last changed."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for one broker, or for all."""

    version: int = 1
    overrides: dict[str, str]
    flush_set_at: int = 0
    """As of a topic, for the default of all topics."""


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
    """A broker that lives. Its epoch is the key's create revision; `incarnation` names the process."""

    version: int = 1
    node_id: int
    epoch: int = 0
    """Written by version 1 of this value and read by nobody."""
    incarnation: str
    listeners: tuple[Listener, ...]
    rack: str | None = None
    directory_id: str = ""
    """Its data directory, of which it holds the lock: a registration with the same one is of a process that is gone."""
    inter_broker: Listener | None = None
    """Where other brokers find it; None where it has no such listener."""
    is_stopping: bool = False
    """Whether it wants to lead nothing any more, because it is about to stop."""
    is_clean: bool = True
    """Whether no process ever stopped in bad order; for brokers that do not know `sound_since`."""
    sound_since: int | None = None
    """The revision since which nothing that was not flushed is lost: after a crash, `SINCE_NOW`, which is this
    registration's own, and later what that was. None by brokers that do not know it: `is_clean` speaks for them."""
    levels: tuple[int, int] = (1, 1)
    """The first and the last format level that it knows."""
    stopped_at: int = NEVER
    """The revision at which its data directory was last stopped cleanly; `NEVER` after a crash."""
    running_since: int = 0
    """The first epoch of the process, where this registration is not its first: it has lost nothing since."""
    proves_logs: bool = False
    """Whether it answers GetReplicaLogInfo: brokers that do not are trusted as they were before."""


class NodeDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The data directory of a node. It stays when the node goes; another one is a node that has lost its data."""

    version: int = 1
    directory_id: str
    is_first: bool = False
    """Whether none was known before: it replaces nothing, so nothing is lost."""


class ReplicaFault(msgspec.Struct, frozen=True, array_like=True):
    """A replica that its broker cannot vouch for: damaged ranges, or a log that cannot be opened at all."""

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
    """Of the process that reports them: what one before it said does not count."""
    faults: tuple[ReplicaFault, ...]


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A witness found nobody listening at a broker's address."""

    version: int = 1
    witness: int
    broker_epoch: int
    """The registration that this is about: a later one is another matter."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that the failure detector took for dead."""

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
    """Who leads a partition and who has all of it.

    `replicas` are all who are to hold it, the preferred leader first; while it is being moved, those who are to
    let go of it come last and are in `removing` as well.
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
    """Replicas that are repaired from the leader: until that is done they are members of nothing."""

    @property
    def in_sync_nodes(self) -> tuple[int, ...]:
        return tuple(member.node_id for member in self.in_sync)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas as they will be."""
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
    """The first producer id that nobody has been given."""

    version: int = 1
    next: int


Value = TypeVar("Value", bound=msgspec.Struct)


_SHORT_FROM = 2
_SHORT_FIELDS = _ShortState.__struct_fields__


def encode(value: msgspec.Struct, level: int = 1) -> bytes:
    """What to store, in the form of a format level."""
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
