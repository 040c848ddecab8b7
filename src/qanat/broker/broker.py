"""The broker: makes its parts, connects them, starts and stops them.

Each part decides in its own module; it names what it needs of others in a protocol, or takes it as an argument.
Everything here runs on one loop.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from qanat.broker.controller.controller_loop import ControllerLoop
from qanat.broker.controller.failure_detector import FailureDetection
from qanat.broker.coordinator_takeover import CoordinatorTakeover
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.metadata_changes import MetadataChanges
from qanat.broker.metadata.registration import Membership
from qanat.broker.metadata_events import MetadataEvents
from qanat.broker.replicas.controlled_shutdown import ControlledShutdown
from qanat.broker.replicas.fetch_sessions import FetchSessions
from qanat.broker.replicas.follower_fetching import FollowerFetching
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.broker.replicas.replica_selector import ReplicaSelector
from qanat.broker.replicas.replication_throttles import ReplicationThrottles
from qanat.broker.replicas.storage_faults import StorageFaults
from qanat.broker.runtime.ack_timeouts import AckTimeouts
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.broker.runtime.peers import Peers
from qanat.broker.runtime.steady_clock import steady_ms
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.broker.settings.dynamic_settings import InForce
from qanat.cluster import values
from qanat.cluster.producer_ids import ProducerIdAllocator
from qanat.cluster.store import MetadataStore
from qanat.groups.settings import GroupSettings
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import RateLimitedEvent
from qanat.telemetry.handler_apps import HandlerApp
from qanat.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from qanat.broker.coordinators.group_coordinator import GroupCoordinator
    from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from qanat.broker.coordinators.transaction_markers import MarkerWriter
    from qanat.broker.coordinators.transaction_verification import TransactionVerification
    from qanat.broker.edge.edge_node import EdgeNode
    from qanat.broker.edge.registry import EdgeRegistry
    from qanat.broker.group_lag import GroupLagCollector
    from qanat.broker.load_sampler import ListenerLoad, LoadSampler
    from qanat.broker.metadata.push_refreshes import PushRefreshes
    from qanat.broker.runtime.client_metrics import ClientMetrics
    from qanat.broker.security.acl_authorizer import AclAuthorizer
    from qanat.broker.settings.group_settings import GroupConfigs
    from qanat.broker.share.administration import ShareAdministration
    from qanat.broker.share.consume_retention import ConsumeRetention
    from qanat.broker.share.share_partitions import SharePartitions
    from qanat.groups.assignors.assignor import Assignor


class Broker:
    """One node. `start` before use, `close` at the end."""

    def __init__(
        self,
        settings: BrokerSettings,
        node_id: int,
        store: MetadataStore,
        runtime: LogRuntime,
        *,
        group_settings: GroupSettings | None = None,
        assignors: dict[str, Assignor] | None = None,
        transaction_settings: TransactionSettings | None = None,
        topic_defaults: Mapping[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.runtime = runtime
        self.steady_ms = steady_ms
        self.counters = BrokerCounters()
        self.handler_apps: Sequence[HandlerApp] = ()
        """Apps that run in processes of their own beside this broker."""
        self.listener_load: ListenerLoad | None = None
        """What the listener of clients counts, where there is one; not that of other brokers."""
        self.parked = ParkedTasks()
        self.park = self.parked.park
        self.ack_timeouts = AckTimeouts()
        self.log_slow_request = RateLimitedEvent("slow request")
        """For all servers: one line a second."""
        self._assignors = assignors
        draw = random.Random(seed)
        self._make_metadata(
            store,
            InForce(settings, runtime.directory.settings, group_settings or GroupSettings(), topic_defaults or {}),
            transaction_settings or TransactionSettings(),
        )
        self._make_replicas()
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, lambda: draw.randrange(1, 2**31)
        )
        self.metadata_changes = MetadataChanges(
            self.metadata,
            self.membership,
            self.current_settings,
            self.parked,
            self.local_replicas.reconcile_topic,
            self.counters,
            draw,
        )
        self.acl_authorizer: AclAuthorizer | None = None
        """The built-in authorizer, where it is configured; the ACL APIs change its rules."""
        self.edge_node: EdgeNode | None = None
        """This broker as a node of a tree, where it has a registry."""
        self.metadata_changes.on_topic_deleted = self._forget_share_states
        self.controller_loop = ControllerLoop(self, self.current_settings, self.peers, self.replica_logs)
        self.failure_detection = FailureDetection(self, self.peers)
        self._events = MetadataEvents(
            self, self._forget_offsets, lambda: self.group_configs.forget(), self._forget_subscriptions
        )

    def _make_metadata(self, store: MetadataStore, at_start: InForce, transactions: TransactionSettings) -> None:
        self.metadata = ImageWatcher(store, lambda events: self._events.dispatch(events))
        image, directory, settings = self.metadata.image, self.runtime.directory, at_start.broker
        self.producer_ids = ProducerIdAllocator(store, self.park)
        self.current_settings = CurrentSettings(at_start, transactions, self.node_id, image, directory, self.park)
        self.current_settings.on_group_settings = self._apply_group_settings
        self.membership = Membership(
            self.metadata, self.node_id, directory, settings.broker_session_timeout_ms, rack=settings.broker_rack
        )
        self.membership.on_joined = self._on_joined
        self.peers = Peers(self.node_id, image)

    def _make_replicas(self) -> None:
        settings, image = self.current_settings, self.metadata.image
        self.local_replicas = replicas = LocalReplicas(
            self.node_id,
            self.runtime,
            image,
            settings.topic,
            self.park,
            steady_ms,
            lambda: self.membership.running_since,
        )
        replicas.lag_max_ms = settings.broker.replica_lag_time_max_ms
        replicas.is_verification_required = settings.transactions.transaction_partition_verification_enable
        takeover = CoordinatorTakeover(self)
        replicas.on_leading, replicas.on_resigned = takeover.load, takeover.drop
        settings.apply_to_topic = replicas.apply_settings
        self.partitions = replicas.partitions
        self.isr_changes = IsrChanges(self, replicas.partitions, settings)
        self.follower_fetching = FollowerFetching(image, replicas, self.runtime)
        self.replica_selector = ReplicaSelector(settings, image)
        self.lookup = PartitionLookup(replicas, image, self.follower_fetching)
        self.throttles = ReplicationThrottles(settings, steady_ms)
        self.replica_logs = ReplicaLogs(self.runtime, image, replicas)
        self.replica_faults = ReplicaFaults(self, self.runtime.directory, replicas, self.counters)
        replicas.on_faults = self.replica_faults.report
        self.storage_faults = StorageFaults(self, self.runtime, replicas, self.replica_faults)
        self.controlled_shutdown = ControlledShutdown(self, replicas.partitions, settings)

    @property
    def settings(self) -> BrokerSettings:
        """The broker's own settings, as they are now."""
        return self.current_settings.broker

    # Coordinators: made on first use, since their code takes a fifth of the time to start

    @cached_property
    def groups(self) -> GroupCoordinator:
        from qanat.broker.coordinators.group_coordinator import GroupCoordinator

        return GroupCoordinator(self, self.current_settings.groups, steady_ms, self._assignors)

    @cached_property
    def group_lag(self) -> GroupLagCollector:
        from qanat.broker.group_lag import GroupLagCollector

        return GroupLagCollector(self)

    @cached_property
    def load_sampler(self) -> LoadSampler:
        from qanat.broker.load_sampler import LoadSampler

        return LoadSampler(self)

    @cached_property
    def push_refreshes(self) -> PushRefreshes:
        from qanat.broker.metadata.push_refreshes import PushRefreshes

        return PushRefreshes(self.metadata, self.parked)

    @cached_property
    def edge_registry(self) -> EdgeRegistry:
        from qanat.broker.edge.registry import EdgeRegistry

        return EdgeRegistry(self.metadata.store, self.parked)

    @cached_property
    def group_configs(self) -> GroupConfigs:
        from qanat.broker.settings.group_settings import GroupConfigs

        return GroupConfigs(self.metadata.image, lambda: self.current_settings.groups)

    @cached_property
    def client_metrics(self) -> ClientMetrics:
        from qanat.broker.runtime.client_metrics import ClientMetrics

        return ClientMetrics(self.node_id, self.metadata.image, steady_ms)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator

        return TransactionCoordinator(self, self.current_settings.transactions, steady_ms)

    @cached_property
    def transaction_verification(self) -> TransactionVerification:
        from qanat.broker.coordinators.transaction_verification import TransactionVerification

        return TransactionVerification(self.node_id, self.metadata.image, self.peers, self.transactions)

    @cached_property
    def markers(self) -> MarkerWriter:
        from qanat.broker.coordinators.transaction_markers import MarkerWriter

        return MarkerWriter(
            self.node_id,
            self.metadata.image,
            self.lookup,
            self.peers,
            self.runtime,
            lambda number, marker: self.groups.end_transaction(number, marker),
        )

    @cached_property
    def share_partitions(self) -> SharePartitions:
        from qanat.broker.coordinators.coordinator_shard import Clocks
        from qanat.broker.share.delivery_policies import SharePolicies
        from qanat.broker.share.share_partitions import SharePartitions

        policies = SharePolicies(self.group_configs.of, self.runtime)
        clocks = Clocks(steady_ms, self.runtime.clock_ms)
        return SharePartitions(
            self, policies, clocks, lambda partition: self.consume_retention.note_progress(partition)
        )

    @cached_property
    def share_administration(self) -> ShareAdministration:
        from qanat.broker.share.administration import ShareAdministration

        return ShareAdministration(self)

    @cached_property
    def consume_retention(self) -> ConsumeRetention:
        from qanat.broker.share.consume_retention import ConsumeRetention

        return ConsumeRetention(self.share_partitions, self.current_settings, self)

    def is_made(self, name: str) -> bool:
        """Whether a part that is made on first use has been made."""
        return name in self.__dict__

    # Life

    async def start(
        self, cluster_id: str, listeners: Sequence[values.Listener], inter_broker: values.Listener | None = None
    ) -> None:
        """Join the cluster: its id, our registration, our replicas."""
        self.storage_faults.start()
        await self.metadata.start()
        revision = self.metadata.image.revision
        await self.metadata_changes.create_cluster(cluster_id)
        if inter_broker is not None:
            from qanat.broker.replicas.replica_fetchers import ReplicaFetchers

            self.local_replicas.fetchers = ReplicaFetchers(self, self.failure_detection.on_unreachable)
        await self.membership.join(listeners, inter_broker)
        self.park(self.membership.maintain())
        await self.controller_loop.campaign()
        self.replica_faults.note()  # Before a damaged replica is followed, and could count as in sync.
        await self.local_replicas.start(revision)
        self.replica_faults.report()
        self.park(self.controller_loop.run())
        self.park(self.isr_changes.watch())
        self.producer_ids.look_ahead()

    async def close(self) -> None:
        """Answer no more, then end everything; the logs' own runtime closes them."""
        if self.is_made("groups"):
            self.groups.close()
        if self.is_made("transactions"):
            self.transactions.close()
        if self.is_made("share_partitions"):
            self.share_partitions.close()
        await self.parked.cancel()
        self.ack_timeouts.close()
        await self.peers.close()
        await self.membership.leave()
        await self.metadata.close()

    # Connections between parts of which one may not be made yet

    def _on_joined(self) -> None:
        """We are registered, in a new epoch where this is not the first time."""
        self.local_replicas.lead_or_follow_all()
        self.replica_faults.report()
        self.controller_loop.wake()

    def _apply_group_settings(self, settings: GroupSettings) -> None:
        self.group_configs.forget()
        if self.is_made("groups"):
            self.groups.apply_settings(settings)

    def _forget_subscriptions(self) -> None:
        if self.is_made("client_metrics"):
            self.client_metrics.forget_subscriptions()

    def _forget_offsets(self, topic: str) -> None:
        if self.is_made("groups"):
            self.park(self.groups.forget_topic(topic))

    def _forget_share_states(self, topic: values.Topic) -> None:
        if self.is_made("share_partitions"):
            self.park(self.share_partitions.forget_topic(topic.identity.value.bytes))
