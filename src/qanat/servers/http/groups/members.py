"""Members of consumer groups over HTTP, in the new protocol (KIP-848): the broker assigns, this node keeps nothing.

A member is its id. Its epoch and assignment come from the coordinator where the client does not send them, so that any
node can answer. A client is taken to follow the last answer: a partition that one answer revokes counts as released
with its next heartbeat.

Rule: a member that is silent for `http.session.timeout.ms` is removed, whichever nodes it used: the group's coordinator
      recognizes HTTP's members by their client id (`HttpContext`).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.servers.http.groups.group_description import MemberView, members_of
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway

_LEAVE, _JOIN = -1, 0
_REBALANCE_MS = 60_000
_ATTEMPTS = 5

Assignment = dict[str, list[int]]


class Membership(msgspec.Struct):
    """A member's own state."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment


class Members:
    """Joins, heartbeats and leaves for clients."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway

    async def find(self, caller: HttpCaller, group: str, member_id: str) -> MemberView:
        """A member as its coordinator knows it; raises a problem where there is none."""
        try:
            _, _, members = await members_of(self._gateway, caller, group)
        except Problem as problem:
            if problem.error is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            members = []
        for one in members:
            if one.member_id == member_id and one.member_epoch is not None:
                return one
        check(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group} has no member {member_id}")
        raise AssertionError("checked")

    async def join(self, caller: HttpCaller, group: str, topics: list[str], member_id: str | None) -> Membership:
        """Join as a new member, or return with a known id."""
        known: MemberView | None = None
        if member_id is not None:
            try:
                known = await self.find(caller, group, member_id)
            except Problem as problem:
                if problem.error is not ErrorCode.UNKNOWN_MEMBER_ID:
                    raise
        if known is not None:
            return await self._beat(caller, group, known, topics)
        request = ConsumerGroupHeartbeatRequest(
            group,
            member_id or str(uuid.uuid4()),
            _JOIN,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
        response = await self._call(caller, group, request)
        check(response.error_code, f"group {group} cannot be joined", response.error_message)
        return await self._membership(caller, group, request.member_id, response)

    async def beat(self, caller: HttpCaller, group: str, member_id: str) -> Membership:
        """Send a heartbeat; the member's state from now on."""
        return await self._beat(caller, group, await self.find(caller, group, member_id), None)

    async def _beat(self, caller: HttpCaller, group: str, known: MemberView, topics: list[str] | None) -> Membership:
        for _ in range(_ATTEMPTS):
            assert known.member_epoch is not None
            request = ConsumerGroupHeartbeatRequest(
                group,
                known.member_id,
                known.member_epoch,
                rebalance_timeout_ms=_REBALANCE_MS,
                subscribed_topic_names=topics,
                topic_partitions=self._owned(known.assignment),
            )
            response = await self._call(caller, group, request)
            if response.error_code != ErrorCode.FENCED_MEMBER_EPOCH:
                break
            # Two requests of one member at once: one of them had an older epoch.
            known = await self.find(caller, group, known.member_id)
        check(response.error_code, f"member {known.member_id} of group {group}", response.error_message)
        return await self._membership(caller, group, known.member_id, response)

    async def leave(self, caller: HttpCaller, group: str, member_id: str) -> None:
        request = ConsumerGroupHeartbeatRequest(group, member_id, _LEAVE)
        response = await self._call(caller, group, request)
        check(response.error_code, f"member {member_id} of group {group}", response.error_message)

    async def _membership(
        self, caller: HttpCaller, group: str, member_id: str, response: ConsumerGroupHeartbeatResponse
    ) -> Membership:
        if response.assignment is None:
            assignment = (await self.find(caller, group, member_id)).assignment
        else:
            known = self._gateway.broker.metadata.image.topics_by_id
            found = [(known.get(TopicId.of(bytes(row.topic_id))), row) for row in response.assignment.topic_partitions]
            assignment = {topic.name: sorted(row.partitions) for topic, row in found if topic is not None}
        return Membership(member_id, response.member_epoch, response.heartbeat_interval_ms, assignment)

    def _owned(self, assignment: Assignment) -> list[RequestTopicPartitions]:
        topics = self._gateway.broker.metadata.image.topics
        return [
            RequestTopicPartitions(topics[name].identity.value.bytes, numbers)
            for name, numbers in assignment.items()
            if name in topics
        ]

    async def _call(
        self, caller: HttpCaller, group: str, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        response: ConsumerGroupHeartbeatResponse = await self._gateway.call_coordinator(
            caller, group, ApiKey.CONSUMER_GROUP_HEARTBEAT, request, lambda answer: int(answer.error_code)
        )
        return response
