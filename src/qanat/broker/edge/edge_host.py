"""The parts of a broker that a node of the tree uses."""

from __future__ import annotations

from typing import Protocol

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.metadata_changes import MetadataChanges
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.log.runtime.log_runtime import LogRuntime


class EdgeHost(TaskOwner, Protocol):
    """A broker."""

    local_replicas: LocalReplicas

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def metadata_changes(self) -> MetadataChanges: ...

    @property
    def current_settings(self) -> CurrentSettings: ...

    @property
    def runtime(self) -> LogRuntime: ...
