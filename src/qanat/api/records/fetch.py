"""Fetch (1): read batches from some partitions; wait for more where there are too few.

v4   record batches; isolation level and aborted transactions    v5   log start offset
v7   fetch sessions (KIP-227)    v9   the client's leader epoch    v10  zstd may be sent
v11  rack id, and the preferred read replica (KIP-392); from here on consumers may fetch from followers
v12  flexible; last fetched epoch, diverging epochs    v13  topics by id
v15  a replica names itself in a tagged field    v16  node endpoints    v17  replica directory id

Batches are sent whole, from the one that holds the requested offset; the first one is sent even above the limits. A
follower's fetch names the broker and its epoch; its offsets say what the follower has on disk. It is refused on
any listener but the inter-broker one, unless an authorizer allows the caller CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from qanat.api.records.leader_hints import NOT_LEADER_ERRORS, current_leader
from qanat.api.records.parked_response import ParkedResponse
from qanat.api.request_context import RequestContext
from qanat.broker.replicas.fetch import FEW_PARTITIONS, Fetch, Found, Wanted, diverges
from qanat.broker.replicas.fetch_sessions import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    PartitionRequest,
    PartitionStatus,
)
from qanat.broker.replicas.partition import Partition
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_READ, _TOPIC = Operation.READ, attrgetter("topic")
_TopicKey = tuple[str, bytes]
"""As `PartitionKey` names a topic: by name, or by id."""
_READ_COMMITTED = 1
_TOPIC_IDS_FROM = 13
_FOLLOWERS_FROM = 11


def authorize(request: FetchRequest, access: AccessCheck) -> Verdict:
    """READ on each topic; CLUSTER_ACTION on the cluster for a follower's fetch.

    A request of a session names only what has changed: the handler asks about every topic of the session.
    """
    if _follower(request) >= 0:
        return access.grant() if access.may_cluster(Operation.CLUSTER_ACTION) else access.deny(_refusal(request))
    if request.session_epoch != FINAL_EPOCH:
        return access.grant()
    if access.knows_topics(_READ, map(_TOPIC, request.topics)):
        return access.grant()
    request.topics, denied = access.split(
        request.topics, lambda topic: access.may_topic_or_id(_READ, topic.topic, topic.topic_id)
    )
    if denied:
        request.max_wait_ms = 0
    return access.grant_without(denied, lambda response: response.responses, _denied)


def _denied(topic: FetchTopic) -> FetchableTopicResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [PartitionData(row.partition, code, -1, aborted_transactions=[], records=[]) for row in topic.partitions]
    return FetchableTopicResponse(topic.topic, topic.topic_id, rows)


def recheck(request: FetchRequest, response: FetchResponse, access: AccessCheck) -> FetchResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic in response.responses:
        if not access.may_topic_or_id(_READ, topic.topic, bytes(topic.topic_id)):
            topic.partitions = [
                PartitionData(row.partition_index, code, -1, aborted_transactions=[], records=[])
                for row in topic.partitions
            ]
    return response


def handle(request: FetchRequest, context: RequestContext) -> object:
    is_decided = context.access is not None  # By the rule above: an authorizer stands before the handler.
    if _follower(request) >= 0 and not context.caller.is_inter_broker and not is_decided:
        return _refusal(request)
    if context.is_long:
        return _in_pieces(request, context)
    session, asked = _session(request, context, _named(request.topics))
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    if len(asked) > FEW_PARTITIONS:
        return _answer_in_pieces(request, context, asked, session)
    denied = _denied_topics(request, context, asked, session)
    wanted = [_wanted(key, what, context, denied) for key, what in asked.items()]
    fetch = _fetch(request, context, asked, wanted, session)
    if fetch.try_now() and (fetch.is_enough or request.max_wait_ms <= 0 or not asked):
        return _response(context, asked, fetch, session, is_full=_is_full(request))
    if fetch.is_cold:
        return _park(request, context, fetch, asked, session)
    is_full = _is_full(request)

    def respond() -> FetchResponse:
        return _response(context, asked, fetch, session, is_full=is_full)

    parked = ParkedResponse(fetch, request.max_wait_ms / 1000, respond, context.broker)
    context.caller.cancel_on_disconnect(parked)
    return parked


def _fetch(
    request: FetchRequest,
    context: RequestContext,
    asked: dict[PartitionKey, PartitionRequest],
    wanted: list[Wanted],
    session: FetchSession | None,
) -> Fetch:
    follower, throttled = _follower(request), list[int]()
    if follower >= 0:
        throttled = _note_progress(request, context, follower, wanted)
        if session is not None and context.broker.replica_selector.is_on:
            _report_high_watermark(asked, wanted, session)
    elif context.version >= _FOLLOWERS_FROM:
        _choose_replicas(request, context, asked, wanted)
    fetch = Fetch(
        wanted,
        min(request.max_bytes, context.broker.settings.fetch_max_bytes),
        request.min_bytes,
        is_committed=request.isolation_level == _READ_COMMITTED,
        is_follower=follower >= 0,
    )
    if throttled:
        fetch.on_answer = lambda: context.broker.throttles.note_sent(
            sum(fetch.found[place].size for place in throttled)
        )
    return fetch


def _follower(request: FetchRequest) -> int:
    """The broker that fetches as a follower, or -1."""
    state = request.replica_state
    return request.replica_id if state is None else max(request.replica_id, state.replica_id)


def _refusal(request: FetchRequest) -> FetchResponse:
    """Refuse a client that poses as a replica, in every partition: before v7 there is no other place for an error."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    topics = [
        FetchableTopicResponse(
            topic.topic, topic.topic_id, [PartitionData(one.partition, code, -1) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=code, responses=topics)


def _note_progress(request: FetchRequest, context: RequestContext, follower: int, wanted: list[Wanted]) -> list[int]:
    """Report a follower's progress to the in-sync sets; a broker that is no replica of a partition gets nothing of it.

    Returns the places of the partitions that are throttled for it.
    """
    throttles, throttled = context.broker.throttles, list[int]()
    epoch = -1 if request.replica_state is None else request.replica_state.replica_epoch
    for place, one in enumerate(wanted):
        partition = one.partition
        if not isinstance(partition, Partition):
            continue
        if one.leader_epoch < 0 and not _is_replica(follower, partition):
            wanted[place] = one._replace(partition=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif one.leader_epoch == partition.leader_epoch:
            if _has_diverged(one, partition):
                continue  # Its log diverged: its progress counts after it has truncated.
            if not context.broker.isr_changes.note_fetch(partition, follower, epoch, one.offset, one.start_offset):
                wanted[place] = one._replace(partition=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif throttles.is_leading_throttled(partition, follower):
                throttled.append(place)
                wanted[place] = one._replace(is_throttled=throttles.is_leading_exceeded())
    return throttled


def _is_replica(follower: int, partition: Partition) -> bool:
    return partition.leader is not None and follower in partition.leader.replicas


def _report_high_watermark(
    asked: dict[PartitionKey, PartitionRequest], wanted: list[Wanted], session: FetchSession
) -> None:
    """Answer a follower as soon as the high watermark moves: its consumers wait for that."""
    for place, key in enumerate(asked):
        if (sent := session.sent.get(key)) is not None:
            wanted[place] = wanted[place]._replace(known_high_watermark=sent.high_watermark)


def _choose_replicas(
    request: FetchRequest, context: RequestContext, asked: dict[PartitionKey, PartitionRequest], wanted: list[Wanted]
) -> None:
    """Let a consumer read a follower replica here, or send it to a replica in its own rack (KIP-392)."""
    selector = context.broker.replica_selector
    rack = request.rack_id if request.rack_id and selector.is_on else ""
    for (place, one), key in zip(enumerate(wanted), asked, strict=True):
        if one.partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            replica = context.broker.lookup.readable_follower(key.topic, key.topic_id, key.partition)
            if replica is not None:
                wanted[place] = one._replace(partition=replica)
        elif rack and isinstance(one.partition, Partition):
            wanted[place] = one._replace(preferred=selector.preferred(one.partition, rack, one.offset))


def _has_diverged(wanted: Wanted, partition: Partition) -> bool:
    return wanted.offset > partition.log.end_offset or diverges(wanted, partition)


def _is_full(request: FetchRequest) -> bool:
    """Whether the answer names every partition, not only those with news."""
    return request.session_epoch == FIRST_EPOCH or request.session_epoch == FINAL_EPOCH


def _park(
    request: FetchRequest,
    context: RequestContext,
    fetch: Fetch,
    asked: dict[PartitionKey, PartitionRequest],
    session: FetchSession | None,
) -> object:
    """Park the answer to a fetch that needs more than memory; the requests behind it are handled meanwhile."""

    async def wait() -> FetchResponse:
        if fetch.is_cold:
            await fetch.read_in_turns(context.yielder)
        await fetch.wait(request.max_wait_ms / 1000)
        return await _response_in_pieces(request, context, asked, fetch, session)

    parked = context.broker.park(wait())
    context.caller.cancel_on_disconnect(parked)
    return parked


# Very many partitions: the session is updated at once, everything else in pieces.


async def _in_pieces(request: FetchRequest, context: RequestContext) -> object:
    named: dict[PartitionKey, PartitionRequest] = {}
    async for topic in context.yielder.over(request.topics):
        async for piece in context.yielder.pieces(topic.partitions):
            named.update(_named([FetchTopic(topic.topic, topic.topic_id, list(piece))]))
    session, asked = _session(request, context, named)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    return await _answer_in_pieces(request, context, asked, session)


async def _answer_in_pieces(
    request: FetchRequest,
    context: RequestContext,
    asked: dict[PartitionKey, PartitionRequest],
    session: FetchSession | None,
) -> object:
    denied = _denied_topics(request, context, asked, session)
    wanted = [_wanted(key, what, context, denied) async for key, what in context.yielder.over(asked.items())]
    fetch = _fetch(request, context, asked, wanted, session)
    await fetch.read_in_turns(context.yielder)
    if fetch.is_enough or request.max_wait_ms <= 0:
        return await _response_in_pieces(request, context, asked, fetch, session)
    return _park(request, context, fetch, asked, session)


async def _response_in_pieces(
    request: FetchRequest,
    context: RequestContext,
    asked: dict[PartitionKey, PartitionRequest],
    fetch: Fetch,
    session: FetchSession | None,
) -> FetchResponse:
    is_full = _is_full(request)
    if len(asked) <= FEW_PARTITIONS:
        return _response(context, asked, fetch, session, is_full=is_full)
    if fetch.on_answer is not None:
        fetch.on_answer()
    answer = _Answer(context, session, is_full=is_full)
    async for piece in context.yielder.pieces(list(zip(asked, fetch.found, strict=True))):
        answer.add(piece)
    return answer.response()


def _session(
    request: FetchRequest, context: RequestContext, named: dict[PartitionKey, PartitionRequest]
) -> tuple[FetchSession | ErrorCode | None, dict[PartitionKey, PartitionRequest]]:
    """The session, if any, and everything to fetch."""
    sessions = context.broker.fetch_sessions
    owner = None if context.access is None else context.access.permissions
    if request.session_epoch == FINAL_EPOCH:
        sessions.end(request.session_id, owner)
        return None, named
    if request.session_epoch == FIRST_EPOCH:
        sessions.end(request.session_id, owner)
        return sessions.create(dict(named), owner), named
    forgotten = [
        PartitionKey(topic.topic, topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session = sessions.use(request.session_id, request.session_epoch, named, forgotten, owner)
    return session, dict(session.partitions) if isinstance(session, FetchSession) else named


def _denied_topics(
    request: FetchRequest,
    context: RequestContext,
    asked: dict[PartitionKey, PartitionRequest],
    session: FetchSession | None,
) -> set[_TopicKey]:
    """The topics of a session that the caller may not read. They stay in it, and the right counts once it is given."""
    access = context.access
    if access is None or request.session_epoch == FINAL_EPOCH or _follower(request) >= 0:
        return set()  # Nobody decides, or the rule has.
    revision = access.permissions.revision
    if session is not None and session.allowed_revision == revision != -1:
        topics = {(topic.topic, topic.topic_id) for topic in request.topics}
    else:
        topics = {(key.topic, key.topic_id) for key in asked}
    denied = {topic for topic in topics if not access.may_topic_or_id(_READ, *topic)}
    if session is not None:
        session.allowed_revision = -1 if denied else revision
    return denied


def _named(topics: Iterable[FetchTopic]) -> dict[PartitionKey, PartitionRequest]:
    return {
        PartitionKey(topic.topic, topic.topic_id, one.partition): PartitionRequest(
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_offset,
        )
        for topic in topics
        for one in topic.partitions
    }


def _wanted(key: PartitionKey, asked: PartitionRequest, context: RequestContext, denied: set[_TopicKey]) -> Wanted:
    broker = context.broker
    partition: Partition | ErrorCode
    if denied and (key.topic, key.topic_id) in denied:
        partition = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif context.version >= _TOPIC_IDS_FROM:
        partition = broker.lookup.led_by_id(key.topic_id, key.partition)
    else:
        partition = broker.lookup.led(key.topic, key.partition)
    return Wanted(
        partition,
        asked.fetch_offset,
        asked.max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )


def _response(
    context: RequestContext,
    asked: dict[PartitionKey, PartitionRequest],
    fetch: Fetch,
    session: FetchSession | None,
    *,
    is_full: bool,
) -> FetchResponse:
    if fetch.on_answer is not None:
        fetch.on_answer()
    answer = _Answer(context, session, is_full=is_full)
    answer.add(zip(asked, fetch.found, strict=True))
    return answer.response()


class _Answer:
    """The response, built in one piece or in several."""

    __slots__ = ("_broker", "_caller", "_endpoints", "_is_full", "_session", "_topics")

    def __init__(self, context: RequestContext, session: FetchSession | None, *, is_full: bool) -> None:
        self._broker, self._caller = context.broker, context.caller
        self._session = session
        self._is_full = is_full
        self._topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        self._endpoints: dict[int, NodeEndpoint] = {}

    def add(self, rows: Iterable[tuple[PartitionKey, Found]]) -> None:
        """Add partitions: those with news, or all."""
        for key, found in rows:
            state = PartitionStatus(found.high_watermark, found.last_stable_offset, found.log_start_offset)
            has_news = self._session is None or self._session.must_report(
                key,
                state,
                has_records=found.size > 0,
                has_error=bool(found.error) or found.diverging is not None or found.preferred >= 0,
            )
            if self._is_full or has_news:
                topic = self._topics.setdefault(
                    (key.topic, key.topic_id), FetchableTopicResponse(key.topic, key.topic_id or ZERO_UUID, [])
                )
                part = _partition(key.partition, found)
                if found.error in NOT_LEADER_ERRORS:
                    self._add_leader_hint(key, part)
                topic.partitions.append(part)

    def _add_leader_hint(self, key: PartitionKey, part: PartitionData) -> None:
        other = current_leader(self._broker, self._caller, key.topic, key.topic_id, key.partition)
        if other is not None:
            part.current_leader = LeaderIdAndEpoch(other.node_id, other.epoch)
            self._endpoints[other.node_id] = NodeEndpoint(other.node_id, other.host, other.port, other.rack)

    def response(self) -> FetchResponse:
        session_id = self._session.session_id if self._session is not None else NO_SESSION
        return FetchResponse(
            session_id=session_id,
            responses=list(self._topics.values()),
            node_endpoints=list(self._endpoints.values()),
        )


def _partition(number: int, found: Found) -> PartitionData:
    aborted = None
    if found.aborted is not None:
        aborted = [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found.aborted]
    diverging = None
    if found.diverging is not None:
        diverging = EpochEndOffset(found.diverging.epoch, found.diverging.end_offset)
    return PartitionData(
        number,
        found.error,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        preferred_read_replica=found.preferred,
        records=found.read.views() if found.read is not None else b"",
    )
