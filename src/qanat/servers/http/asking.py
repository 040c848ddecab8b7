"""Kafka requests asked by this door: of this broker in the same process, or of another over a connection that stays.

The HTTP door has no rules of its own for topics, groups or records: whatever it is asked becomes a request of the
Kafka protocol, passes the same guards under the caller's name, and is answered by the same handler. Where another
broker leads the partition or keeps the group, the request goes there over a connection of `links`; guards are asked
here, where the caller is known.

Rule 1: an answer that may be another a moment later (a leader moved, a broker died) is asked for again until the
        deadline. Whatever is asked of a coordinator may be asked twice.
Rule 2: a write that broke on its way to another broker is repeated by `forwarding` only, which can be told from its
        repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from qanat.broker.unwaited import abandon
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE, UnreachableError, error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation
from qanat.servers.http.caller import CLIENT_ID, Caller
from qanat.servers.http.links import Links
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.kafka.apis import SERVED, Handler, ServedApi
from qanat.servers.kafka.dispatch import Context, Dispatcher
from qanat.wire.kafka.headers import RequestHeader
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.servers.kafka.connection import KafkaConnection
    from qanat.servers.kafka.gate import Gate

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""What coordinators keep."""

_BY_NAME_AT_MOST = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""Later versions know topics by id only."""
UNANSWERED = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
"""Faults of a connection: whether the request arrived is not known."""
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_LOOK_S = 0.5
"""So often it is looked whether a broker that was asked still leads."""


@dataclass(frozen=True)
class _Elsewhere(ServedApi):
    """An API as another broker serves it: guards around it are ours."""

    forward: Handler | None = None

    @property
    def handle(self) -> Handler:
        assert self.forward is not None
        return self.forward


class Asking:
    """Asks on behalf of callers."""

    def __init__(self, broker: Broker, dispatcher: Dispatcher, gate: Gate | None, timeout_s: float) -> None:
        self.broker = broker
        self._dispatcher = dispatcher
        self._gate = gate
        self.timeout_s = timeout_s
        self.links = Links(broker)
        self.nobody = Caller(None)
        """The door itself, for what it does on nobody's behalf."""

    def _patience(self, request: Any) -> float:
        """How long an answer may take: a reader may have asked to wait for records."""
        return self.timeout_s + max(0, getattr(request, "max_wait_ms", 0)) / 1000

    # Where

    @property
    def is_alone(self) -> bool:
        """Whether there is no other broker."""
        return len(self.broker.metadata.image.brokers) <= 1

    @property
    def is_guarded(self) -> bool:
        """Whether somebody decides what callers may do."""
        return self._dispatcher.interceptor is not None

    def require_write(self, caller: Caller, topics: Iterable[str]) -> None:
        """Raise where a caller may not write to a topic; for writes that go under the door's own name."""
        if self._gate is None or self._gate.authorizer is None:
            return
        asker = self._gate.asker(self.broker, caller.principal, caller.host, _version(SERVED[ApiKey.PRODUCE]))
        for topic in topics:
            if not asker.may_topic(Operation.WRITE, topic):
                raise problem_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic}")

    def leader(self, topic: str, partition: int) -> int:
        """Who leads a partition: a node; our own where nobody knows, so that the answer says what is wrong."""
        if not self.is_known(topic, partition):
            return self.broker.node_id
        image = self.broker.metadata.image
        return image.state(image.topics[topic], partition).leader

    def is_known(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition."""
        found = self.broker.metadata.image.topics.get(topic)
        return found is not None and 0 <= partition < len(found.partitions)

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """Who keeps a group or a transactional id."""
        if self.is_alone:
            return self.broker.node_id
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response: FindCoordinatorResponse = await self._ask_here(self.nobody, ApiKey.FIND_COORDINATOR, request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise problem_of(found.error_code, f"{key} has no coordinator", found.error_message)
        return int(found.node_id)

    # Asking

    async def ask(self, caller: Caller, api_key: ApiKey, request: Any, node_id: int | None = None) -> Any:
        """One answer, of this broker or of that node."""
        if node_id is None or node_id == self.broker.node_id:
            return await self._ask_here(caller, api_key, request)
        return await self._ask_there(caller, api_key, request, node_id)

    async def ask_leader(
        self, caller: Caller, api_key: ApiKey, request: Any, node_id: int, topic: str, partitions: Iterable[int]
    ) -> Any:
        """One answer of whoever leads partitions of a topic; `UnreachableError` when another leads one of them.

        A broker that hangs answers nothing for as long as one is willing to wait, and is replaced much sooner.
        """
        if node_id == self.broker.node_id:
            return await self.ask(caller, api_key, request)
        partitions = tuple(partitions)
        asked = asyncio.ensure_future(self.ask(caller, api_key, request, node_id))
        try:
            while not asked.done():
                await asyncio.wait([asked], timeout=_LOOK_S)
                if asked.done():
                    break
                if any(self.leader(topic, partition) not in (node_id, -1) for partition in partitions):
                    raise UnreachableError(f"broker {node_id} was asked and leads no more")
            return asked.result()
        finally:
            abandon(asked, expected=(Problem, QanatError))

    async def ask_coordinator(
        self, caller: Caller, key: str, api_key: ApiKey, request: Any, code_of: Callable[[Any], int], kind: int = GROUP
    ) -> Any:
        """An answer of whoever keeps a group or transactional id; a coordinator that is not ready is asked again."""
        pause, deadline = _PAUSE_S, Deadline.after(self.timeout_s)
        while True:
            try:
                response = await self.ask(caller, api_key, request, await self.coordinator(key, kind))
            except (Problem, QanatError) as fault:
                code = fault.error if isinstance(fault, Problem) else fault.code
                if (code not in RETRIABLE and code not in UNANSWERED) or deadline.left_seconds <= pause:
                    raise
            else:
                code = error_code(code_of(response))
                if code not in RETRIABLE or deadline.left_seconds <= pause:
                    return response
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _ask_here(self, caller: Caller, api_key: ApiKey, request: Any) -> Any:
        served = SERVED[api_key]
        return await self._guarded(served, request, self._context(caller, api_key, _version(served)))

    async def _ask_there(self, caller: Caller, api_key: ApiKey, request: Any, node_id: int) -> Any:
        served = SERVED[api_key]

        async def forward(guarded: Any, _: Context) -> Any:
            at_most = _BY_NAME_AT_MOST.get(api_key)
            return await self.links.call(node_id, api_key, guarded, self._patience(guarded), at_most=at_most)

        there = _Elsewhere(served.key, served.first_version, served.last_version, served.module, forward=forward)
        return await self._guarded(there, request, self._context(caller, api_key, _version(served)))

    async def _guarded(self, served: ServedApi, request: Any, context: Context) -> Any:
        interceptor = self._dispatcher.interceptor
        is_ours = context.connection is cast("KafkaConnection", self.nobody)
        if interceptor is None or is_ours:
            outcome = served.handle(request, context)
        else:
            outcome = interceptor(served, request, context)
        while not isinstance(outcome, Struct) and outcome is not None:
            outcome = await outcome
        return outcome

    def _context(self, caller: Caller, api_key: ApiKey, version: int) -> Context:
        header = RequestHeader(api_key, version, 0, CLIENT_ID, 0)
        # A caller has what handlers ask of a connection; those of SASL are never asked here.
        return Context(self.broker, cast("KafkaConnection", caller), header)


def _version(served: ServedApi) -> int:
    return min(served.last_version, _BY_NAME_AT_MOST.get(served.key, served.last_version))


def is_moving(code: int) -> bool:
    """Whether an answer may be another a moment later."""
    return error_code(code) in RETRIABLE and code != ErrorCode.REQUEST_TIMED_OUT
