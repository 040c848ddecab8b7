"""Authorization of requests: what a caller may do, the verdict of an API's rule, the handler behind the rule.

Every handler module holds its rule, `authorize(request, access)`, and `recheck(request, response, access)` where a
request may wait for records. A rule takes the rows that the caller may not have out of the request and adds them to the
response as refused (`AccessCheck.grant_without`), or it refuses the request as a whole (`AccessCheck.deny`).
`ServedApi` finds them.

Rule 1: an API without a rule is refused altogether.
Rule 2: handler modules do not import this one: a rule gets all it needs with `access`, so that a broker without an
        authorizer does not load it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from qanat.api.allowed_operations import ON_CLUSTER, ON_GROUPS, ON_TOPICS
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.ids import TopicId
from qanat.security.authorization import CLUSTER, Operation, Resource, ResourceKind

if TYPE_CHECKING:
    from qanat.api.caller import Caller
    from qanat.api.permissions import Permissions
    from qanat.broker.broker import Broker
    from qanat.broker.security.acl_authorizer import AclAuthorizer

Complete = Callable[[Any], Any]
"""Makes the final response from the handler's."""
Row = TypeVar("Row")
_TOPIC = ResourceKind.TOPIC  # The attributes of an enum are slow.


class Granted(Struct, frozen=True):
    """The handler gets the request as the rule left it; `complete` adds what its response lacks."""

    complete: Complete | None = None


class Denied(Struct, frozen=True):
    """The handler is not called; this is the response."""

    response: Any


Verdict = Granted | Denied
GRANTED = Granted()


class AuthorizedTopics(Struct, frozen=True):
    """The topics that a principal may describe; equal for equal principals, hosts and authorizers."""

    permissions: Permissions
    dry_run: AclAuthorizer | None = None
    """The authorizer where it only tries out its rules."""
    host: str = ""

    def __call__(self, topic: str) -> bool:
        if self.permissions.allow(Operation.DESCRIBE, ResourceKind.TOPIC, topic):
            return True
        return self.dry_run is not None and self.dry_run.lets_through(
            self.permissions.principal,
            self.host,
            Operation.DESCRIBE,
            Resource(ResourceKind.TOPIC, topic),
            is_recorded=False,
        )


class AccessCheck(Struct, frozen=True):
    """A caller with a request of one version, and what it may do."""

    permissions: Permissions
    caller: Caller
    version: int
    broker: Broker

    @property
    def visibility(self) -> AuthorizedTopics:
        """The topics that the caller may describe; still valid when the caller is gone."""
        dry_run = self._dry_run
        return AuthorizedTopics(self.permissions, dry_run, "" if dry_run is None else self.caller.host)

    @property
    def _dry_run(self) -> AclAuthorizer | None:
        authorizer = self.broker.acl_authorizer
        return None if authorizer is None or authorizer.dry_run is None else authorizer

    # Verdicts

    def grant(self, complete: Complete | None = None) -> Verdict:
        """Let the handler have the request; `complete` finishes its response."""
        return GRANTED if complete is None else Granted(complete)

    def deny(self, response: Any) -> Verdict:
        """Refuse the request as a whole, with this response."""
        return Denied(response)

    def split(self, rows: Iterable[Row], is_allowed: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
        """The allowed rows of a request, and the others."""
        allowed: list[Row] = []
        denied: list[Row] = []
        for row in rows:
            (allowed if is_allowed(row) else denied).append(row)
        return allowed, denied

    def grant_without(
        self,
        denied: list[Row],
        rows_of: Callable[[Any], list[Any]],
        refused: Callable[[Row], Any],
        *,
        unless_error: bool = False,
    ) -> Verdict:
        """Grant a request that lost its `denied` rows: each comes back in the response as `refused` makes it.

        With `unless_error` they are left out where the whole response is an error.
        """
        if not denied:
            return GRANTED

        def complete(response: Any) -> Any:
            if not (unless_error and response.error_code):
                rows_of(response).extend(map(refused, denied))
            return response

        return Granted(complete)

    # Permissions

    def may(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        if self.permissions.allow(operation, kind, name):
            return True
        if self._dry_run is not None and self._dry_run.lets_through(
            self.permissions.principal, self.caller.host, operation, Resource(kind, name)
        ):
            return True
        self.caller.last_denial = (operation, kind, name)
        return False

    def may_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, _TOPIC, name)

    def knows_topics(self, operation: Operation, names: Iterable[str | None]) -> bool:
        """Whether it is known, and need not be asked, that the caller may do this to all of these topics."""
        return self.permissions.knows(operation, _TOPIC, names)

    def may_topic_or_id(self, operation: Operation, name: str | None, topic_id: bytes) -> bool:
        """The same for a topic by name or by id. An unknown id is allowed: the handler does not know it either."""
        found = name or self.topic_name(name, topic_id)
        return found is None or self.may(operation, _TOPIC, found)

    def may_any_topic(self, operation: Operation) -> bool:
        """Whether the caller may do this to any topic, existing or not.

        An authorizer that cannot say is asked for the topics that exist.
        """
        answer = self.permissions.allow_any(operation, ResourceKind.TOPIC)
        if self._dry_run is not None:
            return True  # What it does to which topic is recorded when it does so.
        if answer is None:
            topics = self.broker.metadata.image.topics
            return any(self.permissions.allow(operation, ResourceKind.TOPIC, name) for name in topics)
        return answer

    def may_on_cluster_or_topic(self, operation: Operation, name: str) -> bool:
        """Whether the caller may do this to every topic, by a rule about the cluster, or to this one."""
        return self.may_cluster(operation) or self.may_topic(operation, name)

    def may_describe_topic(self, name: str) -> bool:
        """The same as `may_topic`, where a refusal is for another reason."""
        return self.permissions.allow(Operation.DESCRIBE, ResourceKind.TOPIC, name)

    def may_group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.GROUP, name)

    def may_transactional_id(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.TRANSACTIONAL_ID, name)

    def may_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceKind.CLUSTER, CLUSTER.name)

    def topic_name(self, name: str | None, topic_id: bytes) -> str | None:
        """The name of a topic that was named by name or id; None for an unknown id."""
        if name:
            return name
        topic = self.broker.metadata.image.topics_by_id.get(TopicId.of(topic_id))
        return None if topic is None else topic.name

    # Allowed operations as bits (KIP-430)

    def topic_operations(self, name: str) -> int:
        return self._operations(ResourceKind.TOPIC, name, ON_TOPICS)

    def group_operations(self, name: str) -> int:
        return self._operations(ResourceKind.GROUP, name, ON_GROUPS)

    def cluster_operations(self) -> int:
        """None of them where the caller may not describe the cluster."""
        if not self.may_cluster(Operation.DESCRIBE):
            return 0
        return self._operations(ResourceKind.CLUSTER, CLUSTER.name, ON_CLUSTER)

    def _operations(self, kind: ResourceKind, name: str, possible: int) -> int:
        return sum(1 << one for one in Operation if possible >> one & 1 and self.permissions.allow(one, kind, name))


AuthorizationRule = Callable[[Any, AccessCheck], Verdict]
Recheck = Callable[[Any, Any, AccessCheck], Any]
"""Checks the response of a request, of a caller who may have lost rights since the rule let it pass."""


def handle_authorized(rule: AuthorizationRule, served: Any, request: Any, context: Any, access: AccessCheck) -> Any:
    """The outcome of a served API's handler behind its rule, in any form that a handler may return.

    A request that had to wait is checked again where the rules changed meanwhile: what came since then is not for a
    client that has lost its right.
    """
    recheck: Recheck | None = served.recheck
    revision = -1 if recheck is None else access.permissions.revision
    verdict = rule(request, access)
    if verdict is GRANTED and recheck is None:
        return served.handle(request, context)
    if isinstance(verdict, Denied):
        return verdict.response
    outcome = served.handle(request, context)
    if isinstance(outcome, Struct) or outcome is None:
        return outcome if verdict.complete is None else verdict.complete(outcome)
    complete = verdict.complete
    if recheck is not None:
        complete = _in_turn(_when_changed(recheck, revision, request, access), complete)
    if complete is None:
        return outcome
    return _completed(outcome, complete) if isinstance(outcome, asyncio.Future) else _after(outcome, complete)


def _when_changed(recheck: Recheck, revision: int, request: Any, access: AccessCheck) -> Complete:
    """Checks a response that waited, where the rules changed meanwhile."""

    def complete(response: Any) -> Any:
        return response if access.permissions.revision == revision else recheck(request, response, access)

    return complete


def _in_turn(first: Complete, then: Complete | None) -> Complete:
    if then is None:
        return first
    return lambda response: then(first(response))


async def _after(outcome: Coroutine[Any, Any, Any], complete: Complete) -> Any:
    result = await outcome
    return _completed(result, complete) if isinstance(result, asyncio.Future) else complete(result)


def _completed(outcome: asyncio.Future[Any], complete: Complete) -> asyncio.Future[Any]:
    """A future of the completed response; settled in the same turn of the loop where the outcome is."""
    if isinstance(outcome, SyncFuture):
        settled: SyncFuture[Any] = SyncFuture(loop=outcome.get_loop())
        outcome.sync_callback = lambda done: _pass_on(done, complete, settled.settle, settled)
        return settled
    final: asyncio.Future[Any] = outcome.get_loop().create_future()
    outcome.add_done_callback(lambda done: _pass_on(done, complete, final.set_result, final))
    return final


def _pass_on(
    done: asyncio.Future[Any], complete: Complete, settle: Callable[[Any], None], final: asyncio.Future[Any]
) -> None:
    if final.done():
        return
    if done.cancelled():
        final.cancel()
    elif (fault := done.exception()) is not None:
        final.settle_with_fault(fault) if isinstance(final, SyncFuture) else final.set_exception(fault)
    else:
        settle(complete(done.result()))
