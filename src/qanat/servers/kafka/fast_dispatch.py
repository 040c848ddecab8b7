# cython: language_level=3, annotation_typing=False
"""Dispatch of a frame: the fast paths of Produce and Fetch first, then the ordinary path.

`Dispatcher` extends it. Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from qanat.api.interceptor import authorize
from qanat.servers.kafka import unauthenticated
from qanat.servers.kafka.produce_fast_path import ORDINARY_PATH, ProduceFastPath

if TYPE_CHECKING:
    from collections.abc import Callable

    from qanat.api.interceptor import Interceptor
    from qanat.api.permissions import Permissions
    from qanat.broker.broker import Broker
    from qanat.servers.kafka.connection import KafkaConnection, Outcome
    from qanat.servers.kafka.fetch_fast_path import FetchFastPath


class FastDispatch:
    """Tries the fast paths first."""

    def __init__(
        self,
        broker: Broker,
        produce_fast_path: ProduceFastPath,
        fetch_fast_path: FetchFastPath,
        handle_ordinary: Callable[[memoryview, KafkaConnection, float], Outcome],
    ) -> None:
        self._handle_ordinary = handle_ordinary
        self._broker = broker
        self._runtime = broker.runtime
        self._produce_fast_path = produce_fast_path
        self._fetch_fast_path = fetch_fast_path
        self.interceptor: Interceptor | None = None
        """`authorize` where an authorizer decides, and the one of tests that plan faults (`qanat.testing`)."""

    def handle(self, frame: memoryview, connection: KafkaConnection) -> Outcome:
        """The answer to a frame, at once or later."""
        began = perf_counter()
        self._runtime.requests_handled += 1
        if connection.conversation is not None and (answer := unauthenticated.admit(frame, connection)) is not None:
            return answer
        if began >= connection.session_end_s and not unauthenticated.admit_expired(frame, connection):
            return None
        if self.interceptor is None or self.interceptor is authorize:
            # The fast paths ask for the permissions that `authorize` asks for.
            permissions = None if self.interceptor is None else self._permissions_of(connection)
            produced = self._produce_fast_path.try_handle(frame, connection, permissions, began)
            if produced is not ORDINARY_PATH:
                return produced
            if (outcome := self._fetch_fast_path.try_handle(frame, connection, permissions, began)) is not None:
                return outcome
        return self._handle_ordinary(frame, connection, began)

    def _permissions_of(self, connection: KafkaConnection) -> Permissions | None:
        """What the client may do by the security of its own endpoint; None where no authorizer decides there."""
        security = connection.security
        if security is None:
            return None
        found = connection.permissions
        if found is None or found.principal is not connection.principal:
            found = security.permissions(connection)
        return found
