"""The parent's side of the way up: what it has of a child's outbox, and the records that come.

A child needs WRITE on the target topic and on the transactional id `qanat-edge-<its cluster id>...`, by which the
operator of the parent says which child may speak for which. It needs nothing else: marks are the broker's own.
"""

from __future__ import annotations

from qanat.cluster.topic_configs import MIRROR_SOURCE
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import is_for_brokers
from qanat.servers.http.edge.nodes import raise_if_stopping
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, problem_of
from qanat.wire.up_messages import BeginUp, UpBegun, UpStream, UpTaken, decode_records

_MEDIA_TYPE = "application/octet-stream"
OFFSET_MAX = 2**62


class UpToBegin(RequestBody, frozen=True):
    """Which outbox."""

    stream: UpStream
    base: int = 0
    """Where it began when it was bound to this topic."""
    is_resent: bool = False
    """Take records from `base` on, whatever was taken before."""
    settled: int = -1
    """A mark of this value counts as one at `base`: another parent has what is between."""


async def begin_up(exchange: Exchange) -> UpBegun:
    said: UpToBegin = exchange.body
    topic_id = _require(exchange, said.stream)
    if not 0 <= said.base <= OFFSET_MAX:
        raise Problem(400, "base should not be negative")
    asked = BeginUp(said.stream, said.base, said.is_resent, said.settled)
    return await exchange.context.up_sessions.begin(asked, topic_id)


async def take_up(exchange: Exchange) -> UpTaken:
    head, content = decode_records(exchange.body)
    topic_id = _require(exchange, head.stream)
    named = head.named
    if named is not None and not (0 <= named.first < named.end <= OFFSET_MAX and named.records >= 0):
        raise Problem(400, "named should have first below end, and no negative numbers")
    try:
        return await exchange.context.up_sessions.take(head, content, topic_id)
    finally:
        raise_if_stopping(exchange)


def _require(exchange: Exchange, stream: UpStream) -> str:
    """The id of the target topic; raises where it cannot be one, or the child may not write to it."""
    if (problem := stream.problem()) is not None:
        raise Problem(400, problem)
    gateway = exchange.context.gateway
    gateway.require_write(exchange.caller, [stream.target])
    gateway.require_transactional_id(exchange.caller, stream.name)
    image = exchange.context.broker.metadata.image
    topic = image.topics.get(stream.target)
    if is_for_brokers(stream.target, topic is not None and topic.is_internal):
        raise problem_of(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {stream.target}", "only brokers write to it")
    if topic is None:
        raise problem_of(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {stream.target[:249]}", "create it here, or correct up.target"
        )
    if image.overrides(topic.name).get(MIRROR_SOURCE):
        raise problem_of(
            ErrorCode.POLICY_VIOLATION,
            f"topic {topic.name}",
            "it mirrors a topic of this broker's own parent and is read-only: give up.target another name at this "
            "level, whose topic has an up.target itself",
        )
    return topic.topic_id


OPERATIONS = (
    Operation(
        "POST",
        "/api/v1/edge/up/begin",
        begin_up,
        "What this broker has of a child's outbox; a former process of the child is fenced",
        "edge",
        body=UpToBegin,
        answer=UpBegun,
        waits=True,
    ),
    Operation(
        "POST",
        "/api/v1/edge/up",
        take_up,
        "Bytes of an upload of a child's outbox, and its name when it is complete: then records and mark are appended "
        "in one transaction",
        "edge",
        bodies={_MEDIA_TYPE: bytes},
        answer=UpTaken,
        waits=True,
    ),
)
