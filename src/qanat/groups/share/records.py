"""Records of a share group, as values.

| record                 | content                                                    |
| ---------------------- | ---------------------------------------------------------- |
| `ShareGroupRecord`     | the group's epoch, and a digest of its topics              |
| `ShareMemberRecord`    | a member, with its subscription                            |
| `ShareTargetEpochRecord` | the epoch of the target assignment                       |
| `ShareTargetRecord`    | a member's part in it                                      |
| `ShareCurrentRecord`   | a member's latest assignment                               |
| `ShareTopicsRecord`    | the partitions for which the group has a state             |

`ShareGroupTombstone` deletes one of them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from qanat.groups.consumer.records import Partitions, TopicIdPartition


class ShareRecordKind(IntEnum):
    """Kafka's numbers, at the beginning of the keys."""

    MEMBER = 10
    GROUP = 11
    TARGET_EPOCH = 12
    TARGET_ASSIGNMENT = 13
    CURRENT_ASSIGNMENT = 14
    TOPICS = 15


class ShareGroupRecord(Struct, frozen=True):
    group_id: str
    epoch: int
    topics_digest: int = 0


class ShareMemberRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareTargetEpochRecord(Struct, frozen=True):
    group_id: str
    epoch: int


class ShareTargetRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    partitions: Partitions = ()


class ShareCurrentRecord(Struct, frozen=True):
    group_id: str
    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = ()


class SharedTopic(Struct, frozen=True):
    """A topic that the group reads or has read, with the partitions for which it has a state."""

    topic_id: bytes
    name: str
    partitions: tuple[int, ...]


class ShareTopicsRecord(Struct, frozen=True):
    group_id: str
    topics: tuple[SharedTopic, ...] = ()

    def partitions(self) -> Partitions:
        return tuple(TopicIdPartition(one.topic_id, number) for one in self.topics for number in one.partitions)


class ShareGroupTombstone(Struct, frozen=True):
    """Deletes a record; with the group's own, everything about the group."""

    group_id: str
    kind: ShareRecordKind
    member_id: str = ""


ShareRecord: TypeAlias = (
    ShareGroupRecord
    | ShareMemberRecord
    | ShareTargetEpochRecord
    | ShareTargetRecord
    | ShareCurrentRecord
    | ShareTopicsRecord
    | ShareGroupTombstone
)
