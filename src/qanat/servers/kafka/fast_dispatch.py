# cython: language_level=3, annotation_typing=False
"""Dispatch of a frame: the fast paths of Produce and Fetch first, then the ordinary path.

`Dispatcher` extends it. Compiled and interpreted like `log.append_state`.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from qanat.servers.kafka import unauthenticated
from qanat.servers.kafka.produce_fast_path import ORDINARY_PATH, ProduceFastPath

if TYPE_CHECKING:
    from qanat.api.interceptor import Interceptor
    from qanat.log.runtime.log_runtime import LogRuntime
    from qanat.servers.kafka.connection import KafkaConnection, Outcome
    from qanat.servers.kafka.fetch_fast_path import FetchFastPath


class FastDispatch:
    """Tries the fast paths first."""

    def __init__(self, runtime: LogRuntime, produce_fast_path: ProduceFastPath, fetch_fast_path: FetchFastPath) -> None:
        self._runtime = runtime
        self._produce_fast_path = produce_fast_path
        self._fetch_fast_path = fetch_fast_path
        self.interceptor: Interceptor | None = None
        """Set where an authorizer decides (`listener_security`), and by tests that plan faults (`qanat.testing`)."""

    def handle(self, frame: memoryview, connection: KafkaConnection) -> Outcome:
        """The answer to a frame, at once or later."""
        began = perf_counter()
        self._runtime.requests_handled += 1
        if connection.conversation is not None and (answer := unauthenticated.admit(frame, connection)) is not None:
            return answer
        if self.interceptor is None:
            produced = self._produce_fast_path.try_handle(frame, connection, began)
            if produced is not ORDINARY_PATH:
                return produced
            if (outcome := self._fetch_fast_path.try_handle(frame, connection, began)) is not None:
                return outcome
        return self._handle(frame, connection, began)

    def _handle(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome:
        raise NotImplementedError
