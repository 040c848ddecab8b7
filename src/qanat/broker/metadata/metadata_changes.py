"""Changes of the cluster's metadata that clients and coordinators ask for: topics, settings, replicas, ACLs, users.

A decision is made on the image and committed with compares; where another broker was faster, it is made again. A change
goes on to its end when its client has gone: a topic must not stay half created.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.registration import Membership
from qanat.broker.runtime import operator_events
from qanat.broker.runtime.detached_work import to_the_end
from qanat.broker.runtime.parked_tasks import ParkedTasks
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import keys, values
from qanat.cluster.acls import AclPlan
from qanat.cluster.credentials import CredentialPlan
from qanat.cluster.format_levels import LevelPlan, first_level, require_known
from qanat.cluster.host_defaults import MIN_IN_SYNC
from qanat.cluster.image import MetadataImage
from qanat.cluster.reassignments import PartitionPlan
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Absent, Put
from qanat.cluster.topic_configs import ConfigPlan
from qanat.cluster.topics import CreateTopic, TopicDefaults, TopicPlan, decide_create
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import log_event

Plan = TypeVar("Plan", TopicPlan, ConfigPlan, PartitionPlan, LevelPlan, AclPlan, CredentialPlan)
AnyPlan = TopicPlan | ConfigPlan | PartitionPlan | LevelPlan | AclPlan | CredentialPlan

_DECISIONS_MAX = 10
"""Attempts at a commit before giving up, where other brokers are faster each time."""


class MetadataChanges:
    """Decides, commits, and returns once `reconcile_topic` has brought this broker's replicas in line."""

    def __init__(
        self,
        metadata: ImageWatcher,
        membership: Membership,
        settings: CurrentSettings,
        tasks: ParkedTasks,
        reconcile_topic: Callable[[str], Awaitable[None]],
        counters: BrokerCounters,
        random: Random,
    ) -> None:
        self._metadata = metadata
        self._membership = membership
        self._settings = settings
        self._tasks = tasks
        self._reconcile_topic = reconcile_topic
        self._counters = counters
        self._random = random
        self.on_topic_deleted: Callable[[values.Topic], None] | None = None
        """Called after this broker has deleted a topic."""

    async def create_cluster(self, cluster_id: str) -> None:
        """Write the cluster's id and first format level, where it has none; raises where we are too old for it."""
        image = self._metadata.image
        if image.cluster is None:
            info = values.ClusterInfo(cluster_id=cluster_id)
            puts = [Put(keys.CLUSTER, values.encode(info)), first_level()]
            await self._metadata.commit([Absent(keys.CLUSTER)], puts)
        require_known(image.format_level)

    def new_topic_id(self) -> TopicId:
        return TopicId(uuid.UUID(int=self._random.getrandbits(128), version=4))

    async def create_topic(self, request: CreateTopic, *, is_dry_run: bool = False) -> TopicPlan | Rejection:
        """Create a topic and open its replicas; returns once clients can use it."""
        await self._membership.wait_until_registered()
        broker = self._settings.broker
        defaults = TopicDefaults(
            broker.num_partitions,
            broker.default_replication_factor,
            by_hosts=MIN_IN_SYNC not in self._settings.topic_defaults,
        )
        return await self.carry_out(
            lambda image: decide_create(image, request, self._settings.check_topic, defaults), is_dry_run=is_dry_run
        )

    async def carry_out(
        self, decide: Callable[[MetadataImage], Plan | Rejection], *, is_dry_run: bool = False
    ) -> Plan | Rejection:
        """Decide and commit, again where another broker was faster; returns once our replicas are in line with it."""
        for _ in range(_DECISIONS_MAX):
            plan = decide(self._metadata.image)
            if isinstance(plan, Rejection) or is_dry_run or await self.commit(plan):
                return plan
        return Rejection(ErrorCode.REQUEST_TIMED_OUT, "others keep changing the same topic; try again")

    async def commit(self, plan: AnyPlan) -> bool:
        """Commit a decision, also where the caller is cancelled; False where it must be decided again."""
        return await to_the_end(self._tasks.park(self._commit(plan)))

    async def _commit(self, plan: AnyPlan) -> bool:
        before = self._metadata.image.topics.get(plan.topic.name) if isinstance(plan, TopicPlan) else None
        if not await self._metadata.commit(plan.compares, plan.operations):
            return False
        if isinstance(plan, TopicPlan):
            await self._reconcile_topic(plan.topic.name)
            self._report_topic(plan.topic.name, before)
            return True
        if isinstance(plan, ConfigPlan):
            await self._settings.applied()
        operator_events.change(plan)
        return True

    def _report_topic(self, name: str, before: values.Topic | None) -> None:
        after = self._metadata.image.topics.get(name)
        if after is None:
            self._counters.topics_deleted += 1
            if before is not None and self.on_topic_deleted is not None:
                self.on_topic_deleted(before)
            log_event("topic deleted", topic=name)
        elif before is None:
            self._counters.topics_created += 1
            log_event("topic created", topic=name, partitions=len(after.partitions), replicas=len(after.partitions[0]))
        else:
            log_event("partitions added", topic=name, partitions=len(after.partitions))
