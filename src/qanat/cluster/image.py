"""The metadata image: what a broker knows of its cluster, built from a snapshot and updated by events.

Reads are plain look-ups in dicts that only `apply` and `catch_up` change. All events of one `Changes` are applied
without waiting in between, so a reader on the same loop never sees half a commit. Decisions compare with `unchanged`,
which says "if this key is still as in the image".

The image rejects nothing: it remembers unknown keys (of a later version) by their revision only, and a value that
cannot be read counts as absent and is listed in `unreadable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from qanat.cluster import keys, values
from qanat.cluster.store import (
    NO_REVISION,
    Absent,
    Compare,
    Event,
    EventKind,
    ModifiedAt,
    Revision,
    Snapshot,
)
from qanat.model.ids import TopicId
from qanat.model.push_refreshes import PushRefresh
from qanat.model.topic_names import metric_name

_NOTHING: Mapping[str, str] = {}


class MetadataImage:
    """Topics, settings and brokers at one revision."""

    def __init__(self) -> None:
        self.revision = NO_REVISION
        self.cluster: values.ClusterInfo | None = None
        self.controller: values.Controller | None = None
        self.controller_epoch = NO_REVISION
        self.topics: dict[str, values.Topic] = {}
        self.topics_by_id: dict[TopicId, values.Topic] = {}
        self.names_by_metric: dict[str, dict[str, None]] = {}
        """Topic names by their spelling with `_` for `.`, which two topics may not share (`topics`)."""
        self.topic_configs: dict[str, Mapping[str, str]] = {}
        self.brokers: dict[int, values.BrokerRegistration] = {}
        self.broker_epochs: dict[int, Revision] = {}
        """Since when each broker has been registered: another number is another process."""
        self.directories_since: dict[int, Revision] = {}
        """Since when each node, alive or not, has had another data directory than before."""
        self.node_directories: dict[int, str] = {}
        self.format_level = 1
        """The form in which metadata is written (`format_levels`); 1 where the store does not say."""
        self.partition_states: dict[tuple[str, int], values.PartitionState] = {}
        """States that were ever changed; `state` returns the others as well."""
        self.fault_reports: dict[int, values.ReplicaFaults] = {}
        """What brokers report of their own replicas; usually nothing."""
        self.replica_faults: dict[tuple[str, int], dict[int, values.ReplicaFault]] = {}
        """The same by topic id and partition, then by node, where the process that reports is the present one."""
        self.flush_set_at: dict[str, Revision] = {}
        """When a key of settings last changed whether records are flushed before they are acknowledged."""
        self.topics_since: dict[str, Revision] = {}
        self.broker_configs: dict[int | None, Mapping[str, str]] = {}
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.client_metrics: dict[str, Mapping[str, str]] = {}
        """Subscriptions to metrics of clients, by their names."""
        self.failure_reports: dict[int, values.FailureReport] = {}
        """Brokers that another broker reports as failed."""
        self.evictions: dict[int, values.Eviction] = {}
        self.acls: dict[str, values.AclEntry] = {}
        """ACLs by their keys."""
        self.acls_version = 0
        """Raised by every change of a key of an ACL, readable or not; of this image only."""
        self.credentials: dict[tuple[str, str], values.ScramCredential] = {}
        """By user and SASL mechanism."""
        self.scram_secret = b""
        self.api_keys: dict[str, values.ApiKey] = {}
        """By their ids."""
        self.push_refreshes: dict[tuple[str, str], PushRefresh] = {}
        """The newest refresh of push subscribers, by topic id and group."""
        self.unreadable: dict[str, str] = {}
        self.revisions: dict[str, Revision] = {}
        """When each key of the store, known or not, was last written."""
        self._compared = NO_REVISION
        """The revision of the newest snapshot that was applied."""
        self._deleted: dict[str, Revision] = {}
        """When keys were deleted since then."""

    @staticmethod
    def of(snapshot: Snapshot) -> MetadataImage:
        """The image of everything below `keys.ROOT`."""
        image = MetadataImage()
        image.catch_up(snapshot)
        return image

    def catch_up(self, snapshot: Snapshot) -> list[Event]:
        """Apply a snapshot and return what that changed, as events.

        For a watcher whose history was compacted, and for the periodic comparison: in health nothing is returned, and a
        lost event is repaired. The watch may have gone past a snapshot on its way: what is newer here stays, key by
        key, and what the watch has missed is repaired all the same.
        """
        if snapshot.revision < self._compared:
            return []
        present = {entry.key for entry in snapshot.entries}
        missing = [key for key, known in self.revisions.items() if key not in present and known <= snapshot.revision]
        events = [Event(EventKind.DELETE, key, b"", snapshot.revision) for key in missing]
        events += [
            Event(EventKind.PUT, entry.key, entry.value, entry.mod_revision, entry.create_revision)
            for entry in snapshot.entries
            if entry.mod_revision > max(self.revisions.get(entry.key, NO_REVISION), self._deleted.get(entry.key, -1))
        ]
        for event in events:
            self._take(event)
        self.revision = max(self.revision, snapshot.revision)
        self._compared = snapshot.revision
        self._deleted = {key: revision for key, revision in self._deleted.items() if revision > snapshot.revision}
        return events

    @property
    def cluster_id(self) -> str:
        assert self.cluster is not None, "the cluster has its id before the first client comes"
        return self.cluster.cluster_id

    @property
    def controller_id(self) -> int:
        """The controller's node id; -1 while there is no controller."""
        return -1 if self.controller is None else self.controller.node_id

    def unchanged(self, key: str) -> Compare:
        """The compare that holds as long as the store's key is as in the image."""
        revision = self.revisions.get(key)
        return Absent(key) if revision is None else ModifiedAt(key, revision)

    def overrides(self, topic: str) -> Mapping[str, str]:
        """The overrides of a topic."""
        return self.topic_configs.get(topic, _NOTHING)

    def broker_overrides(self, node_id: int | None) -> Mapping[str, str]:
        """The overrides of one broker, or with `None` of all of them."""
        return self.broker_configs.get(node_id, _NOTHING)

    def push_refresh(self, topic: str, group_id: str) -> PushRefresh | None:
        """The newest refresh of a topic for a group."""
        found = self.topics.get(topic)
        return None if found is None else self.push_refreshes.get((found.topic_id, group_id))

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The overrides of a group; usually none."""
        return self.group_configs.get(group_id, _NOTHING)

    def flushed_since(self, topic: str) -> Revision:
        """Since when a topic's setting to flush records before they are acknowledged has not changed."""
        own = keys.topic_config(topic)
        changes = [at for key, at in self.flush_set_at.items() if key == own or key.startswith(keys.BROKER_CONFIGS)]
        return max(changes, default=NO_REVISION)

    def _index_faults(self) -> None:
        self.replica_faults = {}
        for node_id, report in self.fault_reports.items():
            if self.broker_epochs.get(node_id) == report.broker_epoch:
                for fault in report.faults:
                    self.replica_faults.setdefault((fault.topic_id, fault.partition), {})[node_id] = fault

    def is_torn(self, node_id: int) -> bool:
        """Whether a broker is registered with a data directory that the image lacks: that is written before the broker
        registers, so the watch has missed something."""
        directory_id = self.brokers[node_id].directory_id
        return bool(directory_id) and self.node_directories.get(node_id) != directory_id

    def state(self, topic: values.Topic, number: int) -> values.PartitionState:
        """A partition's leader and in-sync set; before the first change, the first replica and all replicas."""
        found = self.partition_states.get((topic.topic_id, number))
        if found is not None:
            return found
        replicas = topic.partitions[number]
        since = self.topics_since.get(topic.name, NO_REVISION)
        for first, revision in topic.grown:
            if number >= first:
                since = Revision(revision)
        members = tuple(values.Member(node_id, since) for node_id in replicas)
        return values.PartitionState(leader=replicas[0], leader_epoch=0, replicas=replicas, in_sync=members)

    def apply(self, event: Event) -> None:
        """Apply one event; one of the past, or a repeated one, changes nothing."""
        if event.revision >= self.revision:
            self.revision = event.revision
            self._take(event)

    def _take(self, event: Event) -> None:
        self._forget(event.key)
        if event.key.startswith(keys.ACLS):
            self.acls_version += 1
        if event.kind is EventKind.DELETE:
            self._deleted[event.key] = event.revision
        else:
            self._deleted.pop(event.key, None)
            self.revisions[event.key] = event.revision
            try:
                self._learn(event)
            except values.UnreadableValueError as error:
                self.unreadable[event.key] = str(error)

    def _learn(self, event: Event) -> None:
        value = event.value
        match key := keys.parse(event.key):
            case keys.ClusterKey() | keys.FormatKey() | keys.ControllerKey():
                self._learn_cluster(key, event)
            case keys.TopicKey(name):
                self._learn_topic(name, values.decode(values.Topic, value))
                self.topics_since[name] = event.create_revision
            case keys.TopicConfigKey(name):
                topic_config = values.decode(values.TopicConfig, value)
                self.topic_configs[name] = topic_config.overrides
                self._learn_flushing(topic_config, event)
            case keys.BrokerKey() | keys.NodeDirectoryKey():
                self._learn_node(key, event)
            case keys.PartitionKey(topic_id, number):
                self.partition_states[str(topic_id), number] = values.decode(values.PartitionState, value)
            case keys.BrokerConfigKey(node_id):
                broker_config = values.decode(values.BrokerConfig, value)
                self.broker_configs[node_id] = broker_config.overrides
                self._learn_flushing(broker_config, event)
            case keys.GroupConfigKey() | keys.PushRefreshKey() | keys.ClientMetricsKey():
                self._learn_clients(key, value)
            case keys.FailureReportKey() | keys.EvictionKey() | keys.ReplicaFaultsKey():
                self._learn_failure(key, value)
            case keys.AclKey() | keys.CredentialKey() | keys.ApiKeyKey() | keys.ScramSecretKey():
                self._learn_security(key, event)
            case keys.TopicIdKey() | keys.ProducerIdsKey() | None:
                pass
            case unknown:
                assert_never(unknown)

    def _learn_clients(
        self, key: keys.GroupConfigKey | keys.PushRefreshKey | keys.ClientMetricsKey, value: bytes
    ) -> None:
        match key:
            case keys.GroupConfigKey(group_id):
                self.group_configs[group_id] = values.decode(values.GroupConfig, value).overrides
            case keys.PushRefreshKey(topic_id, group_id):
                self.push_refreshes[str(topic_id), group_id] = values.decode(PushRefresh, value)
            case keys.ClientMetricsKey(name):
                self.client_metrics[name] = values.decode(values.ClientMetricsConfig, value).overrides

    def _learn_cluster(self, key: keys.ClusterKey | keys.FormatKey | keys.ControllerKey, event: Event) -> None:
        match key:
            case keys.ClusterKey():
                self.cluster = values.decode(values.ClusterInfo, event.value)
            case keys.FormatKey():
                self.format_level = values.decode(values.ClusterFormat, event.value).level
            case keys.ControllerKey():
                self.controller = values.decode(values.Controller, event.value)
                self.controller_epoch = event.create_revision

    def _learn_node(self, key: keys.BrokerKey | keys.NodeDirectoryKey, event: Event) -> None:
        match key:
            case keys.BrokerKey(node_id):
                self.brokers[node_id] = values.decode(values.BrokerRegistration, event.value)
                self.broker_epochs[node_id] = event.create_revision
                self._index_faults()
            case keys.NodeDirectoryKey(node_id):
                directory = values.decode(values.NodeDirectory, event.value)
                self.node_directories[node_id] = directory.directory_id
                if not directory.is_first:
                    self.directories_since[node_id] = event.revision

    def _learn_flushing(self, config: values.TopicConfig | values.BrokerConfig, event: Event) -> None:
        if config.flush_set_at:
            is_now = config.flush_set_at == values.SINCE_NOW
            self.flush_set_at[event.key] = event.revision if is_now else Revision(config.flush_set_at)

    def _learn_failure(
        self, key: keys.FailureReportKey | keys.EvictionKey | keys.ReplicaFaultsKey, value: bytes
    ) -> None:
        match key:
            case keys.EvictionKey(node_id):
                self.evictions[node_id] = values.decode(values.Eviction, value)
            case keys.FailureReportKey(node_id):
                self.failure_reports[node_id] = values.decode(values.FailureReport, value)
            case keys.ReplicaFaultsKey(node_id):
                self.fault_reports[node_id] = values.decode(values.ReplicaFaults, value)
                self._index_faults()

    def _learn_security(
        self, key: keys.AclKey | keys.CredentialKey | keys.ApiKeyKey | keys.ScramSecretKey, event: Event
    ) -> None:
        match key:
            case keys.AclKey():
                self.acls[event.key] = values.decode(values.AclEntry, event.value)
            case keys.CredentialKey(user, mechanism):
                self.credentials[user, mechanism] = values.decode(values.ScramCredential, event.value)
            case keys.ApiKeyKey(identity):
                self.api_keys[identity] = values.decode(values.ApiKey, event.value)
            case keys.ScramSecretKey():
                self.scram_secret = values.decode(values.ScramSecret, event.value).secret

    def _learn_topic(self, name: str, topic: values.Topic) -> None:
        try:
            identity = topic.identity
        except ValueError:
            raise values.UnreadableValueError(f"topic {name} has the id {topic.topic_id!r}, which is none") from None
        self.topics[name] = topic
        self.topics_by_id[identity] = topic
        self.names_by_metric.setdefault(metric_name(name), {})[name] = None

    def _forget(self, key: str) -> None:
        self.unreadable.pop(key, None)
        self.flush_set_at.pop(key, None)
        if self.revisions.pop(key, None) is None:
            return
        match parsed := keys.parse(key):
            case keys.ClusterKey() | keys.FormatKey() | keys.ControllerKey():
                self._forget_cluster(parsed)
            case keys.TopicKey(name):
                self._forget_topic(name)
            case keys.TopicConfigKey(name):
                self.topic_configs.pop(name, None)
            case keys.BrokerKey() | keys.NodeDirectoryKey():
                self._forget_node(parsed)
            case keys.PartitionKey(topic_id, number):
                self.partition_states.pop((str(topic_id), number), None)
            case keys.BrokerConfigKey(node_id):
                self.broker_configs.pop(node_id, None)
            case keys.GroupConfigKey() | keys.PushRefreshKey() | keys.ClientMetricsKey():
                self._forget_clients(parsed)
            case keys.FailureReportKey() | keys.EvictionKey() | keys.ReplicaFaultsKey():
                self._forget_failure(parsed)
            case keys.AclKey() | keys.CredentialKey() | keys.ApiKeyKey() | keys.ScramSecretKey():
                self._forget_security(parsed)
            case keys.TopicIdKey() | keys.ProducerIdsKey() | None:
                pass
            case unknown:
                assert_never(unknown)

    def _forget_cluster(self, key: keys.ClusterKey | keys.FormatKey | keys.ControllerKey) -> None:
        match key:
            case keys.ClusterKey():
                self.cluster = None
            case keys.FormatKey():
                self.format_level = 1
            case keys.ControllerKey():
                self.controller = None

    def _forget_clients(self, key: keys.GroupConfigKey | keys.PushRefreshKey | keys.ClientMetricsKey) -> None:
        match key:
            case keys.GroupConfigKey(group_id):
                self.group_configs.pop(group_id, None)
            case keys.PushRefreshKey(topic_id, group_id):
                self.push_refreshes.pop((str(topic_id), group_id), None)
            case keys.ClientMetricsKey(name):
                self.client_metrics.pop(name, None)

    def _forget_node(self, key: keys.BrokerKey | keys.NodeDirectoryKey) -> None:
        match key:
            case keys.BrokerKey(node_id):
                self.brokers.pop(node_id, None)
                self.broker_epochs.pop(node_id, None)
                self._index_faults()
            case keys.NodeDirectoryKey(node_id):
                self.directories_since.pop(node_id, None)
                self.node_directories.pop(node_id, None)

    def _forget_failure(self, key: keys.FailureReportKey | keys.EvictionKey | keys.ReplicaFaultsKey) -> None:
        match key:
            case keys.EvictionKey(node_id):
                self.evictions.pop(node_id, None)
            case keys.FailureReportKey(node_id):
                self.failure_reports.pop(node_id, None)
            case keys.ReplicaFaultsKey(node_id):
                self.fault_reports.pop(node_id, None)
                self._index_faults()

    def _forget_security(self, key: keys.AclKey | keys.CredentialKey | keys.ApiKeyKey | keys.ScramSecretKey) -> None:
        match key:
            case keys.AclKey(digest):
                self.acls.pop(keys.acl(digest), None)
            case keys.CredentialKey(user, mechanism):
                self.credentials.pop((user, mechanism), None)
            case keys.ApiKeyKey(identity):
                self.api_keys.pop(identity, None)
            case keys.ScramSecretKey():
                self.scram_secret = b""

    def _forget_topic(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        self.topics_since.pop(name, None)
        if topic is None:
            return
        self.topics_by_id.pop(topic.identity, None)
        names = self.names_by_metric[metric_name(name)]
        del names[name]
        if not names:
            del self.names_by_metric[metric_name(name)]
