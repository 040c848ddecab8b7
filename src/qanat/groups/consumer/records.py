"""Records of a group of the new protocol, as values.

| record                    | content                                                     |
| ------------------------- | ----------------------------------------------------------- |
| `ConsumerGroupRecord`     | the group's epoch, and a digest of its topics               |
| `ConsumerMemberRecord`    | a member, with its subscription                             |
| `TargetEpochRecord`       | the epoch of the target assignment                          |
| `TargetAssignmentRecord`  | a member's part in it                                       |
| `CurrentAssignmentRecord` | a member's current assignment                               |
| `ExpressionRecord`        | the topics that match a regular expression                  |

`ConsumerTombstone` deletes one of them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct


class TopicIdPartition(NamedTuple):
    """A partition of a topic by its id, so that a new topic under an old name is another one."""

    topic_id: bytes
    partition: int


Partitions: TypeAlias = tuple[TopicIdPartition, ...]
"""In order, each once."""


class RecordKind(IntEnum):
    """Kafka's numbers, at the beginning of the keys."""

    GROUP = 3
    TOPICS = 4
    """By Kafka before 4.1; the group's record has a digest instead."""
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET_ASSIGNMENT = 7
    CURRENT_ASSIGNMENT = 8
    EXPRESSION = 16


class MemberState(IntEnum):
    """A member's state between its assignment and the target; Kafka's numbers."""

    STABLE = 0
    """It has its target."""
    UNREVOKED = 1
    """It must revoke partitions before it may continue."""
    UNRELEASED = 2
    """It waits for partitions that others own."""


class ClassicMembership(Struct, frozen=True):
    """The classic part of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names, each with its subscription."""


class ConsumerGroupRecord(Struct, frozen=True):
    group_id: str
    epoch: int
    topics_digest: int = 0


class ConsumerMemberRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    expression: str = ""
    """A regular expression for topics; empty where there is none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMembership | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None


class TargetEpochRecord(Struct, frozen=True):
    group_id: str
    epoch: int


class TargetAssignmentRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    partitions: Partitions = ()


class CurrentAssignmentRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = ()
    revoking: Partitions = ()
    """Still the member's, until it confirms the revocation."""

    def is_settled_in(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class ExpressionRecord(Struct, frozen=True):
    group_id: str
    expression: str
    topics: tuple[str, ...]
    revision: int
    """Of the cluster's metadata with these topics."""
    timestamp_ms: int


class ConsumerTombstone(Struct, frozen=True):
    """Deletes a record; with the group's own, everything about the group."""

    group_id: str
    kind: RecordKind
    name: str = ""
    """The member's id, or the expression."""


ConsumerRecord: TypeAlias = (
    ConsumerGroupRecord
    | ConsumerMemberRecord
    | TargetEpochRecord
    | TargetAssignmentRecord
    | CurrentAssignmentRecord
    | ExpressionRecord
    | ConsumerTombstone
)
