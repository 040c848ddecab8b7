"""The coordinator of a group: its link is looked up once, and again when it has moved."""

from __future__ import annotations

from typing import Any

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.registry import ApiKey

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Coordinator:
    """Where a group's requests go."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self._link: Link | None = None

    async def link(self, deadline: Deadline) -> Link:
        """The link to the coordinator; a group's first request may have to wait for one."""
        if self._link is None or not self._link.is_open:
            self._link = await self.cluster.coordinator_link(self.group, deadline)
        return self._link

    async def call(self, api_key: ApiKey, request: Any, deadline: Deadline) -> Any:
        """Send one request. A coordinator that does not answer is looked up anew the next time."""
        try:
            return await (await self.link(deadline)).call(api_key, request, deadline)
        except (UnreachableError, OutOfTimeError, RefusedError):
            self.forget()
            raise

    def note(self, code: int) -> None:
        """An error code of the coordinator: it may say that another broker is."""
        if code in _MOVED:
            self.forget()

    def forget(self) -> None:
        self._link = None
