"""The state of share groups between brokers (KIP-932): initialize, write, read, delete."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.wire.kafka.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.share_fetching import begin
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_topic, topic_id

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
Batch = tuple[int, int, int, int]


class SharePartitionState:
    """The state of one partition for one group."""

    def __init__(self, play: Play, group: str, topic: bytes, partition: int = 0) -> None:
        self._play, self._group, self._topic, self._partition = play, group, topic, partition

    def begin(self, note: str, state_epoch: int, start_offset: int) -> None:
        row = initialize_share_group_state.PartitionData(self._partition, state_epoch, start_offset)
        topics = [initialize_share_group_state.InitializeStateData(self._topic, [row])]
        request = initialize_share_group_state.InitializeShareGroupStateRequest(self._group, topics)
        self._play.exchange(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, request, note)

    def read(self, note: str, leader_epoch: int = 0) -> None:
        row = read_share_group_state.PartitionData(self._partition, leader_epoch)
        topics = [read_share_group_state.ReadStateData(self._topic, [row])]
        request = read_share_group_state.ReadShareGroupStateRequest(self._group, topics)
        self._play.exchange(ApiKey.READ_SHARE_GROUP_STATE, 0, request, note)

    def write(self, note: str, state_epoch: int, leader_epoch: int, start: int, batches: Sequence[Batch]) -> None:
        rows = [write_share_group_state.StateBatch(*batch) for batch in batches]
        row = write_share_group_state.PartitionData(
            self._partition, state_epoch, leader_epoch, start, state_batches=rows
        )
        topics = [write_share_group_state.WriteStateData(self._topic, [row])]
        request = write_share_group_state.WriteShareGroupStateRequest(self._group, topics)
        self._play.exchange(ApiKey.WRITE_SHARE_GROUP_STATE, 0, request, note)

    def delete(self, note: str) -> None:
        rows = [delete_share_group_state.PartitionData(self._partition)]
        topics = [delete_share_group_state.DeleteStateData(self._topic, rows)]
        request = delete_share_group_state.DeleteShareGroupStateRequest(self._group, topics)
        self._play.exchange(ApiKey.DELETE_SHARE_GROUP_STATE, 0, request, note)


@conversation
def share_state_between_brokers(play: Play) -> None:
    begin(play, suffix="warm")
    keeper = SharePartitionState(play, f"{play.name}-other", topic_id(play, make_topic(play)))
    keeper.begin("begins", 1, 10)
    keeper.read("as it began")
    keeper.write("some are done", 1, 0, 10, [(10, 11, AVAILABLE, 1), (14, 15, ACKNOWLEDGED, 1)])
    keeper.read("some are done")
    keeper.write("some more", 1, 0, 12, [(12, 13, ARCHIVED, 2), (16, 16, AVAILABLE, 3)])
    keeper.read("from a later start")
    keeper.write("an earlier epoch of the state", 0, 0, 12, [(12, 13, AVAILABLE, 1)])
    keeper.write("a later leader", 1, 3, 13, [])
    keeper.write("an earlier leader", 1, 2, 13, [])
    keeper.begin("an earlier epoch", 0, 0)
    keeper.begin("begins anew", 2, 5)
    keeper.read("from there", 3)
    keeper.delete("is forgotten")
    keeper.delete("and again")
