"""Members of share groups as clients play them."""

from __future__ import annotations

from typing import Any

from tests.groups.shell import Shell

from qanat.groups.consumer.records import Partitions
from qanat.groups.replies import AssignmentReply, Reply
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share.group import ShareGroup
from qanat.model.error_codes import ErrorCode

GROUP = "g"


def beat(member_id: str, epoch: int, **fields: Any) -> ShareHeartbeat:
    """A heartbeat that says nothing but what is in `fields`."""
    return ShareHeartbeat(GROUP, member_id, epoch, client_id="c", client_host="/127.0.0.1", **fields)


def join(member_id: str, *topics: str) -> ShareHeartbeat:
    return beat(member_id, 0, topics=topics or ("orders",))


def group_of(shell: Shell) -> ShareGroup:
    return shell.shard.ledger.shares[GROUP]


class Worker:
    """A member that follows its assignment, and joins again where it is fenced."""

    def __init__(self, member_id: str, *topics: str) -> None:
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.assigned: Partitions = ()

    def next_beat(self, *, is_full: bool = False) -> ShareHeartbeat:
        return beat(self.member_id, self.epoch, topics=self.topics if is_full or self.epoch == 0 else None)

    def hear(self, reply: Reply) -> None:
        assert isinstance(reply, AssignmentReply)
        if reply.error is not ErrorCode.NONE:
            self.forget()
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.assigned = reply.assignment

    def forget(self) -> None:
        self.epoch, self.assigned = 0, ()
