"""This broker as a node of its cluster: the protocol for parts that read and change the cluster's metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.metadata.registration import Membership
from qanat.broker.runtime.parked_tasks import TaskOwner


class ClusterNode(TaskOwner, Protocol):
    """A broker that is, or will be, registered."""

    @property
    def node_id(self) -> int: ...

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def membership(self) -> Membership: ...

    @property
    def steady_ms(self) -> Callable[[], int]: ...
