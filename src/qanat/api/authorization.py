"""Who asks, what a guard decides, and how a guard is put around a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from qanat.broker.broker import Broker
from qanat.model.ids import TopicId
from qanat.security.authentication import Principal
from qanat.security.authorization import CLUSTER, Authorizer, Operation, Resource, ResourceKind

Complete = Callable[[Any], Any]
"""Makes the final answer from the handler's."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Granted:
    """The handler may have the request, as the guard has left it; its answer may lack something."""

    complete: Complete | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """The handler is not asked."""

    response: Any


Verdict = Granted | Denied
GRANTED = Granted()


@dataclass(frozen=True, slots=True)
class TopicSight:
    """Which topics somebody may see; equal for everybody who may see the same for the same reason."""

    authorizer: Authorizer
    super_users: tuple[str, ...]
    principal: Principal
    host: str

    def __call__(self, topic: str) -> bool:
        if str(self.principal) in self.super_users:
            return True
        resource = Resource(ResourceKind.TOPIC, topic)
        return self.authorizer.allows(self.principal, self.host, Operation.DESCRIBE, resource)


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """Somebody on a connection, with a request of one version."""

    authorizer: Authorizer
    super_users: tuple[str, ...]
    principal: Principal
    host: str
    version: int
    broker: Broker
    hang_up: Callable[[], None]
    """For requests that have no answer to be refused in."""

    @property
    def visibility(self) -> TopicSight:
        """What the asker may see, also when it is not here to ask."""
        return TopicSight(self.authorizer, self.super_users, self.principal, self.host)

    def may(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        return self._is_allowed(operation, Resource(kind, name))

    def may_topic(self, operation: Operation, name: str) -> bool:
        return self._is_allowed(operation, Resource(ResourceKind.TOPIC, name))

    def may_group(self, operation: Operation, name: str) -> bool:
        return self._is_allowed(operation, Resource(ResourceKind.GROUP, name))

    def may_cluster(self, operation: Operation) -> bool:
        return self._is_allowed(operation, CLUSTER)

    def _is_allowed(self, operation: Operation, resource: Resource) -> bool:
        if str(self.principal) in self.super_users:
            return True
        return self.authorizer.allows(self.principal, self.host, operation, resource)

    def topic_name(self, name: str | None, topic_id: bytes) -> str | None:
        """A topic's name, however it was named; None for an id that nobody has."""
        if name:
            return name
        topic = self.broker.metadata.image.topics_by_id.get(TopicId.of(topic_id))
        return None if topic is None else topic.name

    def bits(self, kind: ResourceKind, name: str, possible: int) -> int:
        """Which of the possible operations are allowed, as KIP-430 has it."""
        return sum(1 << one for one in Operation if possible >> one & 1 and self.may(one, kind, name))


def sifted(rows: Iterable[Row], is_allowed: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
    """Rows that are allowed, and the others."""
    kept: list[Row] = []
    denied: list[Row] = []
    for row in rows:
        (kept if is_allowed(row) else denied).append(row)
    return kept, denied


AuthorizationRule = Callable[[Any, AccessCheck], Verdict]


def handle_authorized(guard: AuthorizationRule, handle: Callable[[], Any], request: Any, access: AccessCheck) -> Any:
    """What the handler answers, in any of a handler's ways, with what the guard has to add."""
    verdict = guard(request, access)
    if isinstance(verdict, Denied):
        return verdict.response
    outcome = handle()
    if verdict.complete is None:
        return outcome
    if isinstance(outcome, asyncio.Future):
        return _completed(outcome, verdict.complete)
    if isinstance(outcome, Coroutine):
        return _after(outcome, verdict.complete)
    return verdict.complete(outcome)


async def _after(outcome: Coroutine[Any, Any, Any], complete: Complete) -> Any:
    result = await outcome
    return _completed(result, complete) if isinstance(result, asyncio.Future) else complete(result)


def _completed(outcome: asyncio.Future[Any], complete: Complete) -> asyncio.Future[Any]:
    final: asyncio.Future[Any] = outcome.get_loop().create_future()

    def pass_on(done: asyncio.Future[Any]) -> None:
        if final.done():
            return
        if done.cancelled():
            final.cancel()
        elif (fault := done.exception()) is not None:
            final.set_exception(fault)
        else:
            final.set_result(complete(done.result()))

    outcome.add_done_callback(pass_on)
    return final
