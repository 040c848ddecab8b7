# cython: language_level=3, annotation_typing=False
"""Which way a request goes: the short ones of lone Produces and Fetches, or that of all others.

`Dispatcher` is made on this. Compiled and interpreted like `log.append_state`.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from qanat.servers.kafka import unauthenticated
from qanat.servers.kafka.produce_fast_path import LONG_WAY, ProduceFastPath

if TYPE_CHECKING:
    from qanat.log.runtime.log_runtime import LogRuntime
    from qanat.servers.kafka.connection import KafkaConnection, Outcome
    from qanat.servers.kafka.dispatch import Interceptor
    from qanat.servers.kafka.fetch_fast_path import FetchFastPath


class FastDispatch:
    """Tries the short ways first."""

    def __init__(self, runtime: LogRuntime, produce_fast_path: ProduceFastPath, fetch_fast_path: FetchFastPath) -> None:
        self._runtime = runtime
        self._produce_fast_path = produce_fast_path
        self._fetch_fast_path = fetch_fast_path
        self.interceptor: Interceptor | None = None
        """Set where somebody decides what askers may do (`gate`), and by tests that want trouble (`qanat.testing`)."""

    def handle(self, frame: memoryview, connection: KafkaConnection) -> Outcome:
        """The answer to a frame, now or later."""
        began = perf_counter()
        self._runtime.requests_handled += 1
        if connection.conversation is not None and (answer := unauthenticated.admit(frame, connection)) is not None:
            return answer
        if self.interceptor is None:
            if (taken := self._produce_fast_path.take(frame, began)) is not LONG_WAY:
                return taken
            if (outcome := self._fetch_fast_path.take(frame, connection, began)) is not None:
                return outcome
        return self._handle(frame, connection, began)

    def _handle(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome:
        raise NotImplementedError
