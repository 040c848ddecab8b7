"""Kafka requests of the HTTP server: handled in this process, or sent to another broker.

HTTP has no rules of its own for topics, groups or records: each operation becomes a request of the Kafka protocol,
passes the same authorization under the caller's name, and is answered by the same handler. Where another broker leads
the partition or coordinates the group, the request goes there over `broker_links`; authorization happens here, where
the caller is known.

Rule 1: an error that may pass in a moment (a leader moved, a broker died) is retried until the deadline. A request to a
        coordinator may be sent twice.
Rule 2: a write whose connection to another broker broke is repeated by `forwarding` only, which the leader recognizes
        as a repetition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from qanat.api.api_table import SERVED, Handler, ServedApi
from qanat.api.interceptor import Intercepted, authorize
from qanat.api.records.append import may_append
from qanat.api.request_context import RequestContext
from qanat.broker.runtime.detached_work import abandon
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE, UnreachableError, error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation
from qanat.servers.http.broker_links import BrokerLinks
from qanat.servers.http.caller import CLIENT_ID, HttpCaller
from qanat.servers.http.problems import Problem, problem_of
from qanat.wire.kafka.headers import RequestHeader
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.servers.listener_security import ListenerSecurity

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""The kinds of coordinator keys."""

_BY_NAME_AT_MOST = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""Later versions name topics by id only."""
UNANSWERED = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
"""Faults of a connection: it is unknown whether the request arrived."""
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_LEADER_CHECK_S = 0.5
"""How often a waiting request checks that its broker still leads."""


@dataclass(frozen=True)
class _RemoteApi(ServedApi):
    """An API that another broker serves; this broker authorizes."""

    forward: Handler | None = None

    @property
    def handle(self) -> Handler:
        assert self.forward is not None
        return self.forward


class KafkaGateway:
    """Makes Kafka requests for callers."""

    def __init__(
        self, broker: Broker, intercepted: Intercepted, security: ListenerSecurity | None, timeout_s: float
    ) -> None:
        self.broker = broker
        self._intercepted = intercepted
        self.security = None if security is None or security.authorizer is None else security
        """The security that decides about requests; None where every client may do everything."""
        self.timeout_s = timeout_s
        self.links = BrokerLinks(broker)
        self.own_caller = HttpCaller(None)
        """The broker itself, for requests that no client made."""

    def _answer_timeout_s(self, request: Any) -> float:
        """How long an answer may take: a fetch may wait for records."""
        return self.timeout_s + max(0, getattr(request, "max_wait_ms", 0)) / 1000

    # Leaders and coordinators

    @property
    def is_alone(self) -> bool:
        """Whether there is no other broker."""
        return len(self.broker.metadata.image.brokers) <= 1

    @property
    def is_authorized(self) -> bool:
        """Whether an interceptor stands before the handlers, as with an authorizer."""
        return self._intercepted.interceptor is not None

    def may_append_here(self, caller: HttpCaller, topic: str) -> bool:
        """Whether a caller's batch may be appended without a Produce request: nothing but an authorizer stands before
        the handler, and it allows that."""
        interceptor, security = self._intercepted.interceptor, self.security
        if interceptor is not None and interceptor is not authorize:
            return False
        if security is None:
            return True
        return may_append(security.access(self.broker, caller, _version(SERVED[ApiKey.PRODUCE])), topic)

    def require_describe(self, caller: HttpCaller, what: str) -> None:
        """Raise where a caller may not describe the cluster; for what no Kafka request stands for."""
        if self.security is None or self.security.authorizer is None:
            return
        if not self.security.access(self.broker, caller, 0).may_cluster(Operation.DESCRIBE):
            raise problem_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, what)

    def require_alter(self, caller: HttpCaller, what: str) -> None:
        """Raise where a caller may not change the cluster; for what no Kafka request stands for."""
        if self.security is None or self.security.authorizer is None:
            return
        if not self.security.access(self.broker, caller, 0).may_cluster(Operation.ALTER):
            raise problem_of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, what)

    def require_describe_group(self, caller: HttpCaller, group: str) -> None:
        """Raise where a caller may not describe a group; for what no Kafka request stands for."""
        if self.security is None:
            return
        if not self.security.access(self.broker, caller, 0).may_group(Operation.DESCRIBE, group):
            raise problem_of(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {group}")

    def view_of(self, caller: HttpCaller) -> tuple[Hashable, ...] | None:
        """Equal for callers who see the same, by rules that are the same; None where that cannot be known."""
        interceptor, security = self._intercepted.interceptor, self.security
        if interceptor is not None and interceptor is not authorize:
            return None
        if security is None or security.authorizer is None:
            return ("everything",)
        permissions = security.access(self.broker, caller, 0).permissions
        return None if permissions.revision < 0 else (permissions, permissions.revision)

    def group_filter(self, caller: HttpCaller) -> Callable[[str], bool] | None:
        """Says which groups a caller may see; None where it may see all."""
        if self.security is None:
            return None
        access = self.security.access(self.broker, caller, 0)
        return lambda group: access.may_group(Operation.DESCRIBE, group)

    def may_describe_topic(self, caller: HttpCaller, topic: str) -> bool:
        """Whether a caller may see a topic; for what no Kafka request stands for."""
        security = self.security
        return security is None or security.access(self.broker, caller, 0).may_topic(Operation.DESCRIBE, topic)

    def require_write(self, caller: HttpCaller, topics: Iterable[str]) -> None:
        """Raise where a caller may not write to a topic; for writes under the broker's own name."""
        if self.security is None:
            return
        access = self.security.access(self.broker, caller, _version(SERVED[ApiKey.PRODUCE]))
        for topic in topics:
            if not may_append(access, topic):
                raise problem_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic}")

    def require_transactional_id(self, caller: HttpCaller, name: str) -> None:
        """Raise where a caller may not write under a transactional id; for transactions under the broker's own name."""
        if self.security is None:
            return
        if not self.security.access(self.broker, caller, 0).may_transactional_id(Operation.WRITE, name):
            raise problem_of(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, f"transactional id {name}")

    def lost_read(self, caller: HttpCaller, topic: str) -> Problem | None:
        """Why the client of a stream may not read its topic any more; None while it may."""
        if self.security is None or self.security.access(self.broker, caller, 0).may_topic(Operation.READ, topic):
            return None
        return problem_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic}")

    def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition; this node where it is unknown, so that the answer carries the error."""
        if not self.is_known(topic, partition):
            return self.broker.node_id
        image = self.broker.metadata.image
        return image.state(image.topics[topic], partition).leader

    def is_known(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition."""
        found = self.broker.metadata.image.topics.get(topic)
        return found is not None and 0 <= partition < len(found.partitions)

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The coordinator of a group or a transactional id."""
        if self.is_alone:
            return self.broker.node_id
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        response: FindCoordinatorResponse = await self._call_here(self.own_caller, ApiKey.FIND_COORDINATOR, request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise problem_of(found.error_code, f"{key} has no coordinator", found.error_message)
        return int(found.node_id)

    # Requests

    async def call(
        self,
        caller: HttpCaller,
        api_key: ApiKey,
        request: Any,
        node_id: int | None = None,
        *,
        at_most: int | None = None,
    ) -> Any:
        """The response of this broker, or of a node; `at_most` is the last version of the API to use."""
        if node_id is None or node_id == self.broker.node_id:
            return await self._call_here(caller, api_key, request, at_most)
        return await self._call_remote(caller, api_key, request, node_id, at_most)

    async def call_leader(
        self, caller: HttpCaller, api_key: ApiKey, request: Any, node_id: int, topic: str, partitions: Iterable[int]
    ) -> Any:
        """The response of a leader; `UnreachableError` when another broker leads one of the partitions.

        A broker that hangs would use up the whole timeout; its partitions get a new leader much sooner.
        """
        if node_id == self.broker.node_id:
            return await self.call(caller, api_key, request)
        partitions = tuple(partitions)
        call = asyncio.ensure_future(self.call(caller, api_key, request, node_id))
        try:
            while not call.done():
                await asyncio.wait([call], timeout=_LEADER_CHECK_S)
                if call.done():
                    break
                if any(self.leader(topic, partition) not in (node_id, -1) for partition in partitions):
                    raise UnreachableError(f"broker {node_id} does not lead any more")
            return call.result()
        finally:
            abandon(call, expected=(Problem, QanatError))

    async def call_coordinator(
        self,
        caller: HttpCaller,
        key: str,
        api_key: ApiKey,
        request: Any,
        code_of: Callable[[Any], int],
        kind: int = GROUP,
    ) -> Any:
        """The response of the coordinator of a group or transactional id, retried until it is ready."""
        pause, deadline = _PAUSE_S, Deadline.after(self.timeout_s)
        while True:
            try:
                response = await self.call(caller, api_key, request, await self.coordinator(key, kind))
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

    async def _call_here(self, caller: HttpCaller, api_key: ApiKey, request: Any, at_most: int | None = None) -> Any:
        served = SERVED[api_key]
        context = self._request_context(caller, api_key, _version(served, at_most))
        return await self._handle_intercepted(served, request, context)

    async def _call_remote(
        self, caller: HttpCaller, api_key: ApiKey, request: Any, node_id: int, at_most: int | None = None
    ) -> Any:
        served = SERVED[api_key]

        async def forward(authorized: Any, _: RequestContext) -> Any:
            limit = _BY_NAME_AT_MOST.get(api_key) if at_most is None else at_most
            return await self.links.call(
                node_id, api_key, authorized, self._answer_timeout_s(authorized), at_most=limit
            )

        there = _RemoteApi(served.key, served.first_version, served.last_version, served.module, forward=forward)
        context = self._request_context(caller, api_key, _version(served, at_most))
        return await self._handle_intercepted(there, request, context)

    async def _handle_intercepted(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        interceptor = self._intercepted.interceptor
        is_ours = context.caller is self.own_caller
        if interceptor is None or is_ours:
            outcome = served.handle(request, context)
        else:
            outcome = interceptor(served, request, context)
        while not isinstance(outcome, Struct) and outcome is not None:
            outcome = await outcome
        return outcome

    def _request_context(self, caller: HttpCaller, api_key: ApiKey, version: int) -> RequestContext:
        header = RequestHeader(api_key, version, 0, CLIENT_ID, 0)
        return RequestContext(self.broker, caller, header)


def _version(served: ServedApi, at_most: int | None = None) -> int:
    limit = _BY_NAME_AT_MOST.get(served.key, served.last_version) if at_most is None else at_most
    return min(served.last_version, limit)


def is_moving(code: int) -> bool:
    """Whether an error may pass in a moment."""
    return error_code(code) in RETRIABLE and code != ErrorCode.REQUEST_TIMED_OUT
