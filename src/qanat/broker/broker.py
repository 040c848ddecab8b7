"""The broker: the partitions it hosts, the picture of its cluster, and what doors ask of both.

It puts together what others decide: `cluster` says which topics there are,
`log` keeps their records, `groups` and `transactions` coordinate. Everything here runs on one loop.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from qanat.broker.controller.controller_loop import ControllerLoop
from qanat.broker.controller.failure_detector import FailureDetection
from qanat.broker.coordinators.takeover import let_go, take_over
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.registration import Membership
from qanat.broker.replicas.fetch_sessions import FetchSessions
from qanat.broker.replicas.follower_fetching import CopyReader, FollowerFetching
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.replicas.replica_logs import ReplicaLogs
from qanat.broker.replicas.replication_throttles import ReplicationThrottles
from qanat.broker.replicas.storage_faults import StorageFaults
from qanat.broker.runtime import operator_events
from qanat.broker.runtime.detached_work import to_the_end
from qanat.broker.runtime.peers import Peers
from qanat.broker.settings import topic_settings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.dynamic_settings import InForce, check_overrides
from qanat.broker.settings.topic_settings import TopicSettings
from qanat.cluster import keys, values
from qanat.cluster.elections import Rules
from qanat.cluster.format_levels import FormatLevelError, LevelPlan, first_level, require_known
from qanat.cluster.image import MetadataImage
from qanat.cluster.producer_ids import ProducerIdAllocator
from qanat.cluster.reassignments import PartitionPlan
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Absent, Event, EventKind, MetadataStore, Put
from qanat.cluster.topic_configs import ConfigPlan
from qanat.cluster.topic_names import INTERNAL_TOPICS
from qanat.cluster.topics import CreateTopic, TopicDefaults, TopicPlan, decide_create
from qanat.connection.faults import UnreachableError
from qanat.groups.settings import GroupSettings
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, StoreUnavailableError
from qanat.model.ids import TopicId, TopicPartition
from qanat.model.ordered_set import OrderedSet
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import log_event
from qanat.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from qanat.broker.coordinators.group_coordinator import GroupCoordinator
    from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from qanat.broker.coordinators.transaction_markers import MarkerWriter
    from qanat.broker.coordinators.transaction_verification import TransactionVerification
    from qanat.broker.settings.group_settings import GroupConfigs
    from qanat.broker.share.administration import ShareAdministration
    from qanat.broker.share.consume_retention import ConsumeRetention
    from qanat.broker.share.share_partitions import SharePartitions
    from qanat.groups.assignors.assignor import Assignor

Response = TypeVar("Response")
Plan = TypeVar("Plan", TopicPlan, ConfigPlan, PartitionPlan, LevelPlan)

_DECISIONS_MAX = 10
"""Attempts at a commit that others keep getting ahead of."""


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
        self.at_start = InForce(
            settings, runtime.directory.settings, group_settings or GroupSettings(), topic_defaults or {}
        )
        """What the broker was told when it was started; some of it may have been changed since."""
        self.settings = settings
        self.node_id = node_id
        self.topic_defaults = self.at_start.topic_defaults
        """Topic settings that hold for topics that have none of their own."""
        self.runtime = runtime
        self.counters = BrokerCounters()
        self.metadata = ImageWatcher(store, self._on_events)
        self.producer_ids = ProducerIdAllocator(store, self.park)
        self.steady_ms = steady_ms
        self.membership = Membership(
            self.metadata, node_id, runtime.directory, settings.broker_session_timeout_ms, rack=settings.broker_rack
        )
        self.local_replicas = LocalReplicas(
            node_id,
            runtime,
            self.metadata.image,
            self.topic_settings,
            self.park,
            steady_ms,
            lambda: self.membership.running_since,
        )
        self.local_replicas.lag_max_ms = settings.replica_lag_time_max_ms
        self.local_replicas.on_leading, self.local_replicas.on_resigned = (
            partial(take_over, self),
            partial(let_go, self),
        )
        self.partitions = self.local_replicas.partitions
        self.membership.on_joined = self._on_joined
        self.controller_loop = ControllerLoop(self, self.membership, self.rules_of)
        self.isr_changes = IsrChanges(self)
        self.follower_fetching = FollowerFetching(self)
        self.throttles = ReplicationThrottles(self)
        self.replica_logs = ReplicaLogs(self)
        self.replica_faults = ReplicaFaults(self)
        self.local_replicas.on_faults = self.replica_faults.report
        self.failure_detection = FailureDetection(self)
        self.peers = Peers(self)
        self._random = random.Random(seed)
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, lambda: self._random.randrange(1, 2**31)
        )
        self.parked: OrderedSet[asyncio.Future[Any]] = OrderedSet()
        """Answers that wait, and whatever else is under way: cancelled in the end."""
        self._news = asyncio.Event()
        """Set whenever the picture of the cluster has changed."""
        self._applying_settings: asyncio.Task[None] | None = None
        """Topics on their way to changed defaults."""
        self.storage_faults = StorageFaults(self)
        self._group_settings = self.at_start.groups
        self._assignors = assignors
        self.transaction_settings = transaction_settings or TransactionSettings()
        self.local_replicas.requires_verification = self.transaction_settings.transaction_partition_verification_enable

    # Coordinators: made when somebody needs them, since their code takes a fifth of the time to start

    @cached_property
    def groups(self) -> GroupCoordinator:
        from qanat.broker.coordinators.group_coordinator import GroupCoordinator

        return GroupCoordinator(self, self._group_settings, steady_ms, self._assignors)

    @cached_property
    def share_administration(self) -> ShareAdministration:
        from qanat.broker.share.administration import ShareAdministration

        return ShareAdministration(self)

    @cached_property
    def group_configs(self) -> GroupConfigs:
        from qanat.broker.settings.group_settings import GroupConfigs

        return GroupConfigs(self.metadata.image, lambda: self._group_settings)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from qanat.broker.coordinators.transaction_coordinator import TransactionCoordinator

        return TransactionCoordinator(self, self.transaction_settings, steady_ms)

    @cached_property
    def transaction_verification(self) -> TransactionVerification:
        from qanat.broker.coordinators.transaction_verification import TransactionVerification

        return TransactionVerification(self)

    @cached_property
    def markers(self) -> MarkerWriter:
        from qanat.broker.coordinators.transaction_markers import MarkerWriter

        return MarkerWriter(self)

    @cached_property
    def share_partitions(self) -> SharePartitions:
        from qanat.broker.coordinators.coordinator_shard import Clocks
        from qanat.broker.share.delivery_policies import SharePolicies
        from qanat.broker.share.share_partitions import SharePartitions

        policies = SharePolicies(self.group_configs.of, self.runtime)
        return SharePartitions(self, policies, Clocks(steady_ms, self.runtime.clock_ms))

    @cached_property
    def consume_retention(self) -> ConsumeRetention:
        from qanat.broker.share.consume_retention import ConsumeRetention

        return ConsumeRetention(self)

    @property
    def cluster_id(self) -> str:
        cluster = self.metadata.image.cluster
        assert cluster is not None, "the cluster has its id before the first client comes"
        return cluster.cluster_id

    @property
    def controller_id(self) -> int:
        """Who is controller; -1 while nobody is."""
        controller = self.metadata.image.controller
        return -1 if controller is None else controller.node_id

    @property
    def broker_epoch(self) -> int:
        """Our epoch; -1 while we are not registered."""
        epoch = self.membership.epoch
        return -1 if epoch is None else epoch

    async def start(
        self, cluster_id: str, listeners: Sequence[values.Listener], inter_broker: values.Listener | None = None
    ) -> None:
        """Take part in the cluster: its id, our registration, the partitions that are ours."""
        self.storage_faults.start()
        await self.metadata.start()
        image = self.metadata.image
        revision = image.revision
        if image.cluster is None:
            info = values.ClusterInfo(cluster_id=cluster_id)
            await self.metadata.commit([Absent(keys.CLUSTER)], [Put(keys.CLUSTER, values.encode(info)), first_level()])
        require_known(image.format_level)
        if inter_broker is not None:
            from qanat.broker.replicas.replica_fetchers import ReplicaFetchers

            self.local_replicas.followers = ReplicaFetchers(self)
        await self.membership.join(listeners, inter_broker)
        self.park(self.membership.stay())
        await self.controller_loop.stand()
        self.replica_faults.note()  # Before a damaged copy is followed, and could count as in sync.
        await self.local_replicas.start(revision)
        self.replica_faults.report()
        self.park(self.controller_loop.run())
        self.park(self.isr_changes.watch())
        self.producer_ids.look_ahead()

    async def close(self) -> None:
        """Answer no more, then let everything go; logs are closed by their own runtime."""
        for name in ("groups", "transactions", "share_partitions"):
            if name in self.__dict__:
                getattr(self, name).close()
        parked = list(self.parked)
        for waiting in parked:
            waiting.cancel()
        await asyncio.gather(*parked, return_exceptions=True)
        await self.peers.close()
        await self.membership.leave()
        await self.metadata.close()

    async def hand_over(self) -> None:
        """Let others lead what we lead, as far as there are others and as long as that takes a reasonable time."""
        timeout_s = self.settings.controlled_shutdown_timeout_ms / 1000
        if not any(one.leader is not None for one in self.partitions.values()):
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self.membership.announce_stop()
                while any(self._could_be_led_by_others(one) for one in self.partitions.values()):
                    self._news.clear()
                    await self._news.wait()
        except (StoreUnavailableError, TimeoutError):
            log_event("stopping without having handed everything over", level="warning", node=self.node_id)

    def _could_be_led_by_others(self, partition: Partition) -> bool:
        brokers = self.metadata.image.brokers
        return partition.leader is not None and any(
            one != self.node_id and one in brokers and not brokers[one].is_stopping for one in partition.leader.in_sync
        )

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Where another broker is found by brokers; raises `UnreachableError` where that is not known."""
        registration = self.metadata.image.brokers.get(node_id)
        listener = None if registration is None else registration.inter_broker
        if listener is None:
            raise UnreachableError(f"broker {node_id} is not registered")
        return listener.host, listener.port

    def _on_joined(self) -> None:
        """We are registered, as another than before if this is not the first time."""
        self.local_replicas.take_part_in_all()
        self.replica_faults.report()
        self.controller_loop.wake()

    def rules_of(self, topic: str) -> Rules:
        """What a topic's settings say about its elections."""
        settings = self.topic_settings(topic)
        flushed_since = self.metadata.image.flushed_since(topic) if settings.log.is_synced else None
        return Rules(settings.min_insync_replicas, flushed_since, settings.unclean_leader_election_enable)

    # Partitions

    def partition(self, topic: str, number: int) -> Partition | ErrorCode:
        """A partition that we lead, or why not."""
        at = TopicPartition(topic, number)
        found = self.partitions.get(at)
        return self.local_replicas.why_missing(at) if found is None else found

    def readable_copy(self, topic: str, topic_id: bytes, number: int) -> CopyReader | None:
        """Our copy of a partition that another leads, for consumers to read; named by `topic`, or by id without it."""
        if not topic:
            known = self.metadata.image.topics_by_id.get(TopicId(uuid.UUID(bytes=topic_id)))
            topic = "" if known is None else known.name
        return self.follower_fetching.copy_of(TopicPartition(topic, number))

    def writable_partition(self, topic: str, number: int) -> Partition | ErrorCode:
        """The same for clients' records: internal topics are written by their owners only."""
        found = self.local_replicas.writable.get((topic, number))
        if found is not None:
            return found
        known = self.metadata.image.topics.get(topic)
        if topic in INTERNAL_TOPICS or (known is not None and known.is_internal):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return self.partition(topic, number)

    def partition_by_id(self, topic_id: bytes, number: int) -> Partition | ErrorCode:
        found = self.local_replicas.by_id.get((topic_id, number))
        if found is not None:
            return found
        known = self.metadata.image.topics_by_id.get(TopicId(uuid.UUID(bytes=topic_id)))
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self.local_replicas.why_missing(TopicPartition(known.name, number))

    def topic_settings(self, topic: str) -> TopicSettings:
        return topic_settings.parse({**self.topic_defaults, **self.metadata.image.overrides(topic)})

    def _on_events(self, events: Sequence[Event]) -> None:
        """Whoever has changed something: settings take effect at once, topics are hosted or let go of."""
        self._news.set()
        self.controller_loop.note(events)
        for event in events:
            match keys.parse(event.key):
                case keys.BrokerKey(node_id) if node_id == self.node_id:
                    self.membership.note()
                    # What we may lead hangs on our epoch, which we may hear of later than of what was given to it.
                    self.local_replicas.take_part_in_all()
                case keys.PartitionKey(topic_id, number):
                    self._on_partition(topic_id, number)
                case keys.TopicConfigKey(name):
                    self.local_replicas.apply_settings(name)
                case keys.TopicKey(name):
                    self.local_replicas.follow(name)
                    if event.kind is EventKind.DELETE and "groups" in self.__dict__:
                        self.park(self.groups.forget_topic(name))
                case keys.BrokerConfigKey(node_id) if node_id in (None, self.node_id):
                    self._apply_settings()
                case keys.GroupConfigKey():
                    self.group_configs.forget()
                case keys.FormatKey():
                    self._on_format_level()
                case keys.FailureReportKey() | keys.EvictionKey() as key:
                    self.failure_detection.note(key)
                case _:
                    pass

    def _on_format_level(self) -> None:
        try:
            require_known(self.metadata.image.format_level)
        except FormatLevelError as fault:
            log_event("this broker is too old for its cluster", level="error", reason=str(fault))
            self.park(self.storage_faults.stand_aside())

    def _on_partition(self, topic_id: TopicId, number: int) -> None:
        topic = self.metadata.image.topics_by_id.get(topic_id)
        if topic is not None and number < len(topic.partitions):
            self.local_replicas.take_part(topic, number)

    def _apply_settings(self) -> None:
        """Take over what was set for this broker or for all, with effect from now on."""
        image = self.metadata.image
        try:
            in_force = self.at_start.with_changes(
                {**image.broker_overrides(None), **image.broker_overrides(self.node_id)}
            )
        except InvalidSettingError as fault:
            # Whoever set it knew other settings than we do: what was in force stays.
            log_event("settings in the store cannot be obeyed", level="error", reason=str(fault))
            return
        self.settings = in_force.broker
        self.runtime.directory.settings = in_force.directory
        self._group_settings = in_force.groups
        self.group_configs.forget()
        if "groups" in self.__dict__:
            self.groups.apply_settings(in_force.groups)
        if in_force.topic_defaults != self.topic_defaults:
            self.topic_defaults = in_force.topic_defaults
            self._applying_settings = self.park(self._apply_topic_settings())

    async def _apply_topic_settings(self) -> None:
        """Let every topic go by the new defaults, a few at a time: there may be very many."""
        for name in list(self.metadata.image.topics):
            self.local_replicas.apply_settings(name)
            await asyncio.sleep(0)

    def check_topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        """What a topic would obey with these settings; raises `InvalidSettingError`."""
        topic_settings.parse(overrides)
        return topic_settings.parse({**self.topic_defaults, **overrides})

    def check_own(self, overrides: Mapping[str, str], *, is_for_all: bool) -> None:
        """Refuse settings that this broker, or all, could not obey; raises `InvalidSettingError`."""
        image = self.metadata.image
        below = image.broker_overrides(self.node_id) if is_for_all else image.broker_overrides(None)
        both = {**overrides, **below} if is_for_all else {**below, **overrides}
        check_overrides(self.at_start, overrides, ())
        check_overrides(self.at_start, both, image.topic_configs.values())

    # Topics

    async def create_topic(self, request: CreateTopic, *, is_dry_run: bool = False) -> TopicPlan | Rejection:
        """Create a topic and host it; returns once clients can use it."""
        await self.membership.present()
        defaults = TopicDefaults(self.settings.num_partitions, self.settings.default_replication_factor)
        return await self.carry_out(
            lambda image: decide_create(image, request, self.check_topic, defaults), is_dry_run=is_dry_run
        )

    async def carry_out(
        self, decide: Callable[[MetadataImage], Plan | Rejection], *, is_dry_run: bool = False
    ) -> Plan | Rejection:
        """Decide and commit, anew where others were faster; returns once what we host is in line with it."""
        for _ in range(_DECISIONS_MAX):
            plan = decide(self.metadata.image)
            if isinstance(plan, Rejection) or is_dry_run or await self.commit(plan):
                return plan
        return Rejection(ErrorCode.REQUEST_TIMED_OUT, "others keep changing the same topic; try again")

    async def commit(self, plan: TopicPlan | ConfigPlan | PartitionPlan | LevelPlan) -> bool:
        """Commit a decision about topics and bring our partitions in line; False where it must be decided anew.

        It goes on to its end when the caller is cancelled: a topic must not stay half created.
        """
        return await to_the_end(self.park(self._commit(plan)))

    async def _commit(self, plan: TopicPlan | ConfigPlan | PartitionPlan | LevelPlan) -> bool:
        before = self.metadata.image.topics.get(plan.topic.name) if isinstance(plan, TopicPlan) else None
        if not await self.metadata.commit(plan.compares, plan.operations):
            return False
        if isinstance(plan, TopicPlan):
            await self.local_replicas.host_topic(plan.topic.name)
            self._tell_topic(plan.topic.name, before)
            return True
        if isinstance(plan, ConfigPlan) and self._applying_settings is not None:
            await self._applying_settings
        operator_events.change(plan)
        return True

    def _tell_topic(self, name: str, before: values.Topic | None) -> None:
        after = self.metadata.image.topics.get(name)
        if after is None:
            self.counters.topics_deleted += 1
            if before is not None and "share_partitions" in self.__dict__:
                self.park(self.share_partitions.forget_topic(before.identity.value.bytes))
            log_event("topic deleted", topic=name)
        elif before is None:
            self.counters.topics_created += 1
            log_event("topic created", topic=name, partitions=len(after.partitions), replicas=len(after.partitions[0]))
        else:
            log_event("partitions added", topic=name, partitions=len(after.partitions))

    def new_topic_id(self) -> TopicId:
        return TopicId(uuid.UUID(int=self._random.getrandbits(128), version=4))

    # Waiting

    def park(self, response: Coroutine[Any, Any, Response]) -> asyncio.Task[Response]:
        """Let an answer wait beside the connection that asked for it."""
        task = asyncio.get_running_loop().create_task(response)
        self.parked.add(task)
        task.add_done_callback(self.parked.discard)
        return task


def steady_ms() -> int:
    """A clock that nobody sets: the loop's, so that a simulated loop has a simulated one."""
    return int(asyncio.get_running_loop().time() * 1000)
