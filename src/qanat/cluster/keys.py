"""Keys of the metadata store, and how to parse them.

    /qanat/cluster                              `ClusterInfo`, written once
    /qanat/controller                           `Controller`, under the controller's lease
    /qanat/producer-ids                         `ProducerIdBlock`, counted up by compare-and-set
    /qanat/topics/<name>                        `Topic`
    /qanat/topic-ids/<topic id>                 `TopicReference`; no id is used twice
    /qanat/topic-configs/<name>                 `TopicConfig`, only where something differs from the default
    /qanat/brokers/<node id>                    `BrokerRegistration`, under the broker's lease
    /qanat/broker-configs/<node id | default>   `BrokerConfig`
    /qanat/group-configs/<group id>             `GroupConfig`; the id with %2F for / and the like
    /qanat/node-directories/<node id>           `NodeDirectory`, written when it has changed
    /qanat/partitions/<topic id>/<partition>    `PartitionState`; none until the first change
    /qanat/replica-faults/<node id>             `ReplicaFaults`, under the broker's lease; none where all are sound
    /qanat/suspicions/<node id>                 `FailureReport`, under its witness's lease; gone after some seconds
    /qanat/evictions/<node id>                  `Eviction`, the last one of that node by the failure detector
    /qanat/features/format                      `ClusterFormat`; none in clusters from before there were levels
    /qanat/acls/<digest of the rule>            `AclEntry`; the same rule has the same key (`acls`)
    /qanat/credentials/<user>/<mechanism>       `ScramCredential`; the user with %2F for / and the like
    /qanat/scram-secret                         `ScramSecret`, written once
    /qanat/api-keys/<id>                        `ApiKey`; the id is the part of a key that is shown
    /qanat/client-metrics/<name>                `ClientMetricsConfig`; the name as in `group-configs`
    /qanat/push-refreshes/<topic id>/<group id> `PushRefresh`, the newest one; the group as in `group-configs`

Reserved for later: /qanat/client-quotas/,
/qanat/node-names/ (which number a named node has), other keys of /qanat/features/.

A partition's state is keyed by the topic's id, so that a topic that was deleted and created
again starts afresh. Creating a topic writes none: a missing state means the assignment's
first replica leads in epoch 0 and all replicas are in sync. A topic of any size therefore
fits into one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from qanat.model.ids import TopicId

ROOT = "/qanat/"
CLUSTER = ROOT + "cluster"
CONTROLLER = ROOT + "controller"
PRODUCER_IDS = ROOT + "producer-ids"
TOPICS = ROOT + "topics/"
TOPIC_IDS = ROOT + "topic-ids/"
TOPIC_CONFIGS = ROOT + "topic-configs/"
BROKERS = ROOT + "brokers/"
BROKER_CONFIGS = ROOT + "broker-configs/"
GROUP_CONFIGS = ROOT + "group-configs/"
NODE_DIRECTORIES = ROOT + "node-directories/"
PARTITIONS = ROOT + "partitions/"
REPLICA_FAULTS = ROOT + "replica-faults/"
FAILURE_REPORTS = ROOT + "suspicions/"
EVICTIONS = ROOT + "evictions/"
FORMAT = ROOT + "features/format"
ACLS = ROOT + "acls/"
CREDENTIALS = ROOT + "credentials/"
SCRAM_SECRET = ROOT + "scram-secret"
API_KEYS = ROOT + "api-keys/"
PUSH_REFRESHES = ROOT + "push-refreshes/"
CLIENT_METRICS = ROOT + "client-metrics/"

_ALL_BROKERS = "default"


def topic(name: str) -> str:
    return TOPICS + name


def topic_id(identity: TopicId) -> str:
    return TOPIC_IDS + str(identity)


def topic_config(name: str) -> str:
    return TOPIC_CONFIGS + name


def broker(node_id: int) -> str:
    return f"{BROKERS}{node_id}"


def broker_config(node_id: int | None) -> str:
    """One broker's settings, or with `None` the default of all."""
    return BROKER_CONFIGS + (_ALL_BROKERS if node_id is None else str(node_id))


def node_directory(node_id: int) -> str:
    return f"{NODE_DIRECTORIES}{node_id}"


def replica_faults(node_id: int) -> str:
    return f"{REPLICA_FAULTS}{node_id}"


def failure_report(node_id: int) -> str:
    return f"{FAILURE_REPORTS}{node_id}"


def eviction(node_id: int) -> str:
    return f"{EVICTIONS}{node_id}"


def group_config(group_id: str) -> str:
    from urllib.parse import quote  # Costly to import at every start, for settings that few groups have.

    return GROUP_CONFIGS + quote(group_id, safe="")


def client_metrics(name: str) -> str:
    from urllib.parse import quote

    return CLIENT_METRICS + quote(name, safe="")


def acl(digest: str) -> str:
    return ACLS + digest


def credential(user: str, mechanism: str) -> str:
    from urllib.parse import quote

    return f"{CREDENTIALS}{quote(user, safe='')}/{mechanism}"


def api_key(identity: str) -> str:
    return API_KEYS + identity


def push_refreshes_of(identity: TopicId) -> str:
    """The prefix of all refreshes of a topic."""
    return f"{PUSH_REFRESHES}{identity}/"


def push_refresh(identity: TopicId, group_id: str) -> str:
    from urllib.parse import quote

    return push_refreshes_of(identity) + quote(group_id, safe="")


def partitions_of(identity: TopicId) -> str:
    """The prefix of all partition states of a topic."""
    return f"{PARTITIONS}{identity}/"


def partition(identity: TopicId, number: int) -> str:
    return f"{partitions_of(identity)}{number}"


class ClusterKey(Struct, frozen=True):
    """The cluster's identity."""


class ControllerKey(Struct, frozen=True):
    """The controller."""


class ProducerIdsKey(Struct, frozen=True):
    """The counter of producer id blocks."""


class FormatKey(Struct, frozen=True):
    """The cluster's format level."""


class TopicKey(Struct, frozen=True):
    """A topic by name."""

    name: str


class TopicIdKey(Struct, frozen=True):
    """A topic by id."""

    topic_id: TopicId


class TopicConfigKey(Struct, frozen=True):
    """A topic's settings."""

    name: str


class BrokerKey(Struct, frozen=True):
    """A registered broker."""

    node_id: int


class BrokerConfigKey(Struct, frozen=True):
    """A broker's settings, or those of all."""

    node_id: int | None


class NodeDirectoryKey(Struct, frozen=True):
    """The data directory that a node has."""

    node_id: int


class ReplicaFaultsKey(Struct, frozen=True):
    """The faulty replicas of a broker."""

    node_id: int


class FailureReportKey(Struct, frozen=True):
    """A witness's report that a broker has failed."""

    node_id: int


class EvictionKey(Struct, frozen=True):
    """The last eviction of a broker."""

    node_id: int


class GroupConfigKey(Struct, frozen=True):
    """A group's settings."""

    group_id: str


class ClientMetricsKey(Struct, frozen=True):
    """A subscription to metrics of clients."""

    name: str


class AclKey(Struct, frozen=True):
    """An ACL."""

    digest: str


class CredentialKey(Struct, frozen=True):
    """A user's credential for one SASL mechanism."""

    user: str
    mechanism: str


class ApiKeyKey(Struct, frozen=True):
    """An API key."""

    identity: str


class PushRefreshKey(Struct, frozen=True):
    """The newest refresh of a topic for a group."""

    topic_id: TopicId
    group_id: str


class ScramSecretKey(Struct, frozen=True):
    """What salts of unknown users are made from."""


class PartitionKey(Struct, frozen=True):
    """A partition's state."""

    topic_id: TopicId
    partition: int


Key = (
    ClusterKey
    | ControllerKey
    | ProducerIdsKey
    | FormatKey
    | TopicKey
    | TopicIdKey
    | TopicConfigKey
    | BrokerKey
    | BrokerConfigKey
    | GroupConfigKey
    | NodeDirectoryKey
    | ReplicaFaultsKey
    | PartitionKey
    | FailureReportKey
    | EvictionKey
    | AclKey
    | CredentialKey
    | ApiKeyKey
    | ScramSecretKey
    | PushRefreshKey
    | ClientMetricsKey
)

_SINGLE: dict[str, Key] = {
    CLUSTER: ClusterKey(),
    CONTROLLER: ControllerKey(),
    PRODUCER_IDS: ProducerIdsKey(),
    FORMAT: FormatKey(),
    SCRAM_SECRET: ScramSecretKey(),
}


_BY_NODE: dict[str, Callable[[int], Key]] = {
    "brokers": BrokerKey,
    "node-directories": NodeDirectoryKey,
    "replica-faults": ReplicaFaultsKey,
    "suspicions": FailureReportKey,
    "evictions": EvictionKey,
}
"""Folders of keys that end with a node's number."""


def parse(key: str) -> Key | None:
    """What a key stands for; `None` for one that this version does not know."""
    if (single := _SINGLE.get(key)) is not None:
        return single
    folder, _, rest = key.removeprefix(ROOT).partition("/")
    if not key.startswith(ROOT) or not rest:
        return None
    match folder:
        case "topics" if "/" not in rest:
            return TopicKey(rest)
        case "topic-configs" if "/" not in rest:
            return TopicConfigKey(rest)
        case "topic-ids":
            return None if (identity := _topic_id(rest)) is None else TopicIdKey(identity)
        case "broker-configs":
            return _broker_config(rest)
        case "group-configs":
            return _group_config(rest)
        case "partitions":
            return _partition(rest)
        case "client-metrics":
            return _client_metrics(rest)
        case "push-refreshes":
            return _push_refresh(rest)
        case "acls" | "credentials" | "api-keys":
            return _of_security(folder, rest)
        case _:
            return _of_node(folder, rest)


def _group_config(rest: str) -> GroupConfigKey | None:
    from urllib.parse import unquote

    group_id = unquote(rest)
    return GroupConfigKey(group_id) if group_config(group_id) == GROUP_CONFIGS + rest else None


def _client_metrics(rest: str) -> ClientMetricsKey | None:
    from urllib.parse import unquote

    name = unquote(rest)
    return ClientMetricsKey(name) if client_metrics(name) == CLIENT_METRICS + rest else None


def _push_refresh(rest: str) -> PushRefreshKey | None:
    from urllib.parse import unquote

    identity_text, _, quoted = rest.partition("/")
    identity, group_id = _topic_id(identity_text), unquote(quoted)
    if identity is None or push_refresh(identity, group_id) != PUSH_REFRESHES + rest:
        return None
    return PushRefreshKey(identity, group_id)


def _broker_config(rest: str) -> BrokerConfigKey | None:
    if rest == _ALL_BROKERS:
        return BrokerConfigKey(None)
    node_id = _number(rest)
    return None if node_id is None else BrokerConfigKey(node_id)


def _partition(rest: str) -> PartitionKey | None:
    identity_text, _, number_text = rest.partition("/")
    identity, number = _topic_id(identity_text), _number(number_text)
    return None if identity is None or number is None else PartitionKey(identity, number)


def _of_node(folder: str, rest: str) -> Key | None:
    make, node_id = _BY_NODE.get(folder), _number(rest)
    return None if make is None or node_id is None else make(node_id)


def _of_security(folder: str, rest: str) -> AclKey | CredentialKey | ApiKeyKey | None:
    from urllib.parse import unquote

    if folder in ("acls", "api-keys"):
        return None if "/" in rest else AclKey(rest) if folder == "acls" else ApiKeyKey(rest)
    quoted, _, mechanism = rest.partition("/")
    user = unquote(quoted)
    is_ours = mechanism and "/" not in mechanism and credential(user, mechanism) == CREDENTIALS + rest
    return CredentialKey(user, mechanism) if user and is_ours else None


def _number(text: str) -> int | None:
    """A number in the one spelling that the functions above give it."""
    number = int(text) if text.isascii() and text.isdigit() else None
    return number if number is not None and str(number) == text else None


@lru_cache(maxsize=1 << 14)  # The keys of all partitions of a topic hold the same id.
def _topic_id(text: str) -> TopicId | None:
    try:
        identity = TopicId.parse(text)
    except ValueError:
        return None
    return identity if str(identity) == text else None
