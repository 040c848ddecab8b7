"""A cluster's client: it finds brokers, leaders and coordinators, and retries.

Rule 1: transient errors (a leader moves, a coordinator is loading) are retried until
        the deadline; the error then names the last reason.
Rule 2: metadata is requested when it is needed, and dropped when an answer shows that it is stale.
Rule 3: a silent broker does not cost the whole deadline where another one could answer. A request that changes
        something is not sent twice for that reason: the outcome of the first is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnansweredError, UnreachableError, check, refused
from qanat.connection.link import Link
from qanat.connection.security import UNPROTECTED, Security
from qanat.model.error_codes import ErrorCode
from qanat.model.spelling import did_you_mean
from qanat.model.topic_names import NAME_LENGTH_MAX
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from qanat.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from qanat.wire.kafka.registry import ApiKey

Result = TypeVar("Result")
Address = tuple[str, int]

DEFAULT_PORT = 9092
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_CONNECT_S = 5.0
"""How long one address may take to connect, before the next one is tried."""
_VIEW_S = 1.0
"""How long the known leaders of a topic are trusted."""
_SILENT_S = 3.0
"""How long one broker may take over a request that another one could answer as well."""
_CREATION_S = 10.0
"""How long a topic that was asked for may be missing, until the broker counts as one that makes none."""
_UNANSWERED_S = 2.0
"""How long a cluster is tried that accepts connections and has never answered on one."""
_READY = (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
"""Error codes of a usable partition."""
_LACKING = (*_READY, ErrorCode.LEADER_NOT_AVAILABLE)


class Kind(IntEnum):
    """The kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        return "group" if self is Kind.GROUP else "transactional id"


class TopicLeaders(msgspec.Struct, frozen=True):
    """A topic's partitions and their leaders; -1 where there is none."""

    name: str
    leaders: Mapping[int, int]


class Cluster:
    """A bounded number of links: one per broker, opened when first needed. `async with Cluster(...)`."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str = "qanat",
        timeout_s: float = 15.0,
        security: Security = UNPROTECTED,
        bootstrap_timeout_s: float = 0.0,
    ) -> None:
        """`bootstrap_timeout_s`: how long to retry a cluster that was never reached, which is seldom worth it."""
        self._bootstrap = list(bootstrap)
        self._security = security
        self._bootstrap_deadline = Deadline.after(bootstrap_timeout_s)
        self._client_id = client_id
        self.timeout_s = timeout_s
        self._nodes: dict[int, Address] = {}
        self._links: dict[Address, Link] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._known: Address | None = None
        """The broker that answered last."""
        self._was_reached = False
        self._was_answered = False
        self._views: dict[str, tuple[TopicLeaders, float]] = {}
        """The latest metadata of topics, and its time, until a request fails."""

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._links:  # A request that is under way may add one.
            _, link = self._links.popitem()
            await link.close()

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)

    @property
    def was_reached(self) -> bool:
        """Whether a broker has ever answered: its address is right then."""
        return self._was_reached

    # Links

    async def any_link(self, deadline: Deadline) -> Link:
        """A link to any broker that answers; raises the last reason where none does."""
        fault: Exception | None = None
        addresses = self._addresses()
        for address in addresses:
            try:
                link = await self._link(address, deadline if address == addresses[-1] else _soon(deadline, _CONNECT_S))
            except (UnreachableError, OutOfTimeError) as reason:
                fault = fault or reason
            else:
                self._known, self._was_reached = address, True
                return link
        raise UnreachableError(f"no broker can be reached: {fault}")

    def _addresses(self) -> list[Address]:
        """Addresses of brokers, the one that answered last first."""
        known = [self._known] if self._known is not None else []
        return list(dict.fromkeys([*known, *self._bootstrap, *self._nodes.values()]))

    async def node_link(self, node_id: int, deadline: Deadline) -> Link:
        """A link to that broker."""
        if node_id not in self._nodes:
            await self.metadata([], deadline)
        address = self._nodes.get(node_id)
        if address is None:
            there = ", ".join(map(str, sorted(self._nodes)))
            raise refused(f"broker {node_id} is not there; there are {there}", ErrorCode.BROKER_NOT_AVAILABLE)
        try:
            return await self._link(address, deadline)
        except UnreachableError as fault:
            raise UnreachableError(
                f"broker {node_id} says that it is at {address[0]}:{address[1]}, but {fault}; "
                "if that address is wrong from here, set advertised.listeners at the broker"
            ) from None

    async def _link(self, address: Address, deadline: Deadline) -> Link:
        async with self._opening.setdefault(address, asyncio.Lock()):
            link = self._links.get(address)
            if link is None or not link.is_open:
                link = await Link.open(*address, self._client_id, deadline, self._security)
                self._links[address] = link
            return link

    # Requests

    async def call(
        self, api_key: ApiKey, request: Any, deadline: Deadline | None = None, *, is_question: bool = False
    ) -> Any:
        """Send to any broker; `is_question` where the request changes nothing, so that another may get it."""
        deadline = deadline or self.deadline()

        async def attempt() -> Any:
            if is_question:
                return await self._call_any(api_key, request, deadline)
            return await (await self.any_link(deadline)).call(api_key, request, deadline)

        return await self.persist(attempt, deadline)

    async def call_controller(
        self, api_key: ApiKey, request: Any, deadline: Deadline | None = None, *, is_question: bool = False
    ) -> Any:
        """Send to the controller; `is_question` as for `call`."""
        deadline = deadline or self.deadline()

        async def attempt() -> Any:
            controller_id = (await self.metadata([], deadline)).controller_id
            soon = _soon(deadline, _CONNECT_S)  # It may have died: soon there is another controller then.
            link = await (self.node_link(controller_id, soon) if controller_id >= 0 else self.any_link(deadline))
            return await link.call(api_key, request, _soon(deadline, _SILENT_S) if is_question else deadline)

        return await self.persist(attempt, deadline)

    async def coordinator_link(self, key: str, deadline: Deadline, kind: Kind = Kind.GROUP) -> Link:
        """A link to the coordinator of a group or a transactional id; the first request may have to wait for it."""

        async def attempt() -> Link:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            response: FindCoordinatorResponse = await self._call_any(ApiKey.FIND_COORDINATOR, request, deadline)
            found = response.coordinators[0] if response.coordinators else response
            check(f"{kind.label} {key} has no coordinator", found.error_code, found.error_message)
            self._nodes[found.node_id] = (found.host, found.port)
            return await self.node_link(found.node_id, deadline)

        return await self.persist(attempt, deadline)

    async def metadata(
        self, topics: Sequence[str] | None, deadline: Deadline, *, may_create: bool = False
    ) -> MetadataResponse:
        """Brokers, and these topics; None for all topics. The answer of one broker, without retries."""
        wanted = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        response: MetadataResponse = await self._call_any(ApiKey.METADATA, request, deadline)
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        return response

    async def _call_any(self, api_key: ApiKey, request: Any, deadline: Deadline) -> Any:
        """The answer of the first broker that gives one soon; for requests that change nothing."""
        while True:
            link = await self.any_link(deadline)
            address = self._known
            others = [one for one in self._addresses() if one != address]
            try:
                return await link.call(api_key, request, _soon(deadline, _SILENT_S) if others else deadline)
            except OutOfTimeError:
                if deadline.is_over:
                    raise
                await link.close()  # A silent broker comes last from now on.
                self._known = None
                self._bootstrap.sort(key=lambda one: one == address)

    async def topic(
        self, name: str, deadline: Deadline, *, may_create: bool = False, may_lack_leaders: bool = False
    ) -> TopicLeaders:
        """A topic that is ready: every partition has a leader, unless it may lack some. Raises where there is none of
        that name, with `may_create` after ten seconds."""
        loop = asyncio.get_running_loop()
        made_until = loop.time() + _CREATION_S if may_create else 0.0

        async def attempt() -> TopicLeaders:
            (topic,) = (await self.metadata([name], deadline, may_create=may_create)).topics
            is_missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_missing and loop.time() < made_until:
                hint = "the broker makes it on first use only where auto.create.topics.enable=true"
                raise refused(f"topic {name} is not there yet", ErrorCode.LEADER_NOT_AVAILABLE, hint)
            if is_missing:
                hint = "; the broker makes none on first use (auto.create.topics.enable)" if may_create else ""
                raise RefusedError(topic.error_code, await self._no_topic(name, deadline) + hint)
            if topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise refused(f"there can be no topic {name[:NAME_LENGTH_MAX]!r}", topic.error_code, _name_rule(name))
            if not may_lack_leaders or topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                check(f"topic {name}", topic.error_code)
            return _view(topic, _LACKING if may_lack_leaders else _READY)

        return await self.persist(attempt, deadline)

    async def created_topic(self, name: str, deadline: Deadline) -> TopicLeaders:
        """A topic that the controller has just created: a broker that has not seen it yet is asked again."""

        async def attempt() -> TopicLeaders:
            (topic,) = (await self.metadata([name], deadline)).topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise refused(f"topic {name} is not there yet", ErrorCode.LEADER_NOT_AVAILABLE)
            return await self.topic(name, deadline)

        return await self.persist(attempt, deadline)

    async def known_topic(self, name: str, deadline: Deadline, *, may_create: bool = False) -> TopicLeaders:
        """`topic` from a short-lived cache: for callers within `persist` whose request a former leader may refuse.

        A leader that was replaced without knowing does not refuse, it only never acknowledges: so the cache is short.
        """
        now = asyncio.get_running_loop().time()
        view, asked_at = self._views.get(name, (None, 0.0))
        if view is None or now - asked_at > _VIEW_S:
            view = await self.topic(name, deadline, may_create=may_create)
            self._views[name] = view, now
        return view

    async def _no_topic(self, name: str, deadline: Deadline) -> str:
        names = [topic.name for topic in (await self.metadata(None, deadline)).topics if topic.name]
        return f"there is no topic {name}{did_you_mean(name, names)}"

    async def persist(self, attempt: Callable[[], Awaitable[Result]], deadline: Deadline) -> Result:
        """Retry until it succeeds, until it fails for good, or until the deadline."""
        pause = _FIRST_PAUSE_S
        soon = Deadline.after(_UNANSWERED_S)
        while True:
            try:
                found = await attempt()
                self._was_answered = True
                return found
            except (UnreachableError, RefusedError, OutOfTimeError) as fault:
                self._views.clear()
                is_final = isinstance(fault, RefusedError) and not fault.is_retriable
                # A cluster that was never reached is more likely misspelled than restarting.
                is_locked = isinstance(fault, UnansweredError) and not self._was_answered and soon.is_over
                is_hopeless = (is_locked or not self._was_reached) and self._bootstrap_deadline.is_over
                if is_final or is_hopeless or deadline.left_seconds <= pause:
                    raise
            self._known = None
            await deadline.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _soon(deadline: Deadline, seconds: float) -> Deadline:
    """After so many seconds, or at the deadline if that comes first."""
    return Deadline(min(deadline.at, Deadline.after(seconds).at))


def _name_rule(name: str) -> str:
    """Why a broker refuses a name: metadata does not say."""
    if len(name) > NAME_LENGTH_MAX:
        return f"a name has at most {NAME_LENGTH_MAX} characters, this has {len(name)}"
    return "a name consists of letters a-z and A-Z, digits, and . _ -, and is neither empty nor . nor .."


def _view(topic: MetadataResponseTopic, accepted: Collection[ErrorCode]) -> TopicLeaders:
    for partition in topic.partitions:
        if partition.error_code not in accepted:
            raise refused(f"partition {partition.partition_index} of topic {topic.name}", partition.error_code)
    leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
    return TopicLeaders(topic.name or "", dict(sorted(leaders.items())))


def parse_bootstrap(text: str) -> list[Address]:
    """`host:port,host:port`; the port may be left out. Raises `ValueError` saying what is wrong."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, separator, port = item.rpartition(":")
        if not separator or item.endswith("]"):
            host, port = item, str(DEFAULT_PORT)
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{item!r} is no address: write host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("an address is needed: host:port")
    return addresses
