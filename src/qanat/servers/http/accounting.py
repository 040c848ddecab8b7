"""The accounting of HTTP's requests: `RequestAccounting` for each operation, and the answers by status.

A Kafka request that an operation makes in this process is part of it, and is not counted as one of a Kafka client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qanat.servers.http.exchange import Scope
from qanat.servers.http.operations import Operation
from qanat.servers.http.protocol import BODY_BYTES
from qanat.servers.http.reply import Reply
from qanat.servers.request_accounting import RequestAccounting

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.telemetry.http_counters import HttpCounters

_AGENT_MAX = 100
"""So much of a client's name for itself is logged."""


class HttpAccounting:
    """The answered requests of one listener; streams are not among them."""

    def __init__(self, broker: Broker, counters: HttpCounters, operations: Iterable[Operation]) -> None:
        self._broker = broker
        self._counters = counters
        self._by_operation = {one.name: self._of(one.name, is_long_poll=one.is_long_poll) for one in operations}

    def _of(self, operation: str, *, is_long_poll: bool = False) -> RequestAccounting:
        log_slow = None if is_long_poll else self._broker.log_slow_request
        requests = self._counters.requests
        return RequestAccounting(f"HTTP {operation}", requests, self._broker.current_settings, log_slow)

    def answered(self, scope: Scope, operation: str, reply: Reply, began: float) -> None:
        """The answer to a request is ready; `began` is when its headers were there, by `perf_counter`."""
        accounting = self._by_operation.get(operation)
        if accounting is None:  # A preflight, or a request that is no operation's.
            accounting = self._by_operation[operation] = self._of(operation)
        answers = self._counters.answered
        answers[operation, reply.status] = answers.get((operation, reply.status), 0) + 1
        accounting.arrived(scope.get(BODY_BYTES, 0))
        elapsed_s = accounting.answered(began, len(reply.body))
        if accounting.is_slow(elapsed_s):
            accounting.log_slow(elapsed_s, _agent(scope), _peer(scope))


def _agent(scope: Scope) -> str:
    """What the client calls itself."""
    found: bytes = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
    return found[:_AGENT_MAX].decode("latin-1")


def _peer(scope: Scope) -> str:
    address = scope["client"]
    return f"{address[0]}:{address[1]}" if address else ""
