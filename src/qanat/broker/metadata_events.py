"""Dispatch of metadata changes: each part of the broker is called for the keys that concern it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from qanat.broker.controller.controller_loop import ControllerLoop
from qanat.broker.controller.failure_detector import FailureDetection
from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.replicas.controlled_shutdown import ControlledShutdown
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.replicas.storage_faults import StorageFaults
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import keys
from qanat.cluster.format_levels import FormatLevelError, require_known
from qanat.cluster.store import Event, EventKind
from qanat.model.ids import TopicId
from qanat.telemetry.events import log_event


class EventTargets(ClusterNode, Protocol):
    """The parts of a broker that act on metadata changes."""

    @property
    def current_settings(self) -> CurrentSettings: ...

    @property
    def local_replicas(self) -> LocalReplicas: ...

    @property
    def storage_faults(self) -> StorageFaults: ...

    @property
    def controlled_shutdown(self) -> ControlledShutdown: ...

    @property
    def controller_loop(self) -> ControllerLoop: ...

    @property
    def failure_detection(self) -> FailureDetection: ...


class MetadataEvents:
    """Dispatches the events of one broker's image, after the image has them."""

    def __init__(
        self,
        targets: EventTargets,
        on_topic_deleted: Callable[[str], None],
        on_group_config: Callable[[], None],
        on_client_metrics: Callable[[], None] = lambda: None,
    ) -> None:
        self._targets = targets
        self._on_topic_deleted = on_topic_deleted
        self._on_group_config = on_group_config
        self._on_client_metrics = on_client_metrics

    def dispatch(self, events: Sequence[Event]) -> None:
        """Settings take effect at once, replicas are opened or removed, whichever broker has changed the metadata."""
        self._targets.controlled_shutdown.note()
        self._targets.controller_loop.note(events)
        for event in events:
            self._dispatch(event)

    def _dispatch(self, event: Event) -> None:
        targets = self._targets
        match keys.parse(event.key):
            case keys.BrokerKey(node_id) if node_id == targets.node_id:
                targets.membership.note_change()
                # Our epoch decides what we may lead, and it may arrive later than the states that name us.
                targets.local_replicas.lead_or_follow_all()
            case keys.PartitionKey(topic_id, number):
                self._on_partition(topic_id, number)
            case keys.TopicConfigKey(name):
                targets.local_replicas.apply_settings(name)
            case keys.TopicKey(name):
                targets.local_replicas.reconcile_soon(name)
                if event.kind is EventKind.DELETE:
                    self._on_topic_deleted(name)
            case keys.BrokerConfigKey(node_id) if node_id in (None, targets.node_id):
                targets.current_settings.apply()
            case keys.GroupConfigKey():
                self._on_group_config()
            case keys.ClientMetricsKey():
                self._on_client_metrics()
            case keys.FormatKey():
                self._on_format_level()
            case keys.FailureReportKey() | keys.EvictionKey() as key:
                targets.failure_detection.note(key)
            case _:
                pass

    def _on_partition(self, topic_id: TopicId, number: int) -> None:
        topic = self._targets.metadata.image.topics_by_id.get(topic_id)
        if topic is not None and number < len(topic.partitions):
            self._targets.local_replicas.lead_or_follow(topic, number)

    def _on_format_level(self) -> None:
        try:
            require_known(self._targets.metadata.image.format_level)
        except FormatLevelError as fault:
            log_event("this broker is too old for its cluster", level="error", reason=str(fault))
            self._targets.park(self._targets.storage_faults.step_down())
