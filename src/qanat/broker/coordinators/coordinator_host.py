"""The broker as its coordinators see it: partitions of internal topics, and the means to create these topics."""

from __future__ import annotations

from typing import Protocol

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.metadata_changes import MetadataChanges
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.log.runtime.log_runtime import LogRuntime


class CoordinatorHost(TaskOwner, Protocol):
    """What every coordinator needs of its broker."""

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def metadata_changes(self) -> MetadataChanges: ...

    @property
    def lookup(self) -> PartitionLookup: ...

    @property
    def runtime(self) -> LogRuntime: ...
