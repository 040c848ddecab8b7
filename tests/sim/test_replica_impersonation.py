"""A process that fetches as a replica and is not the registered one: it does not move the high watermark."""

from __future__ import annotations

from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.machine import INTER_BROKER_PORT

from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from qanat.wire.kafka.registry import ApiKey


def test_who_poses_as_a_replica_among_brokers_commits_nothing_by_what_it_says_to_have() -> None:
    async def script(stage: Stage) -> None:
        leader, absent = stage.leader, stage.followers[0]
        await stage.send(b"one")
        for other in stage.machines:
            if other is not absent:
                stage.network.cut(absent.host, other.host)
                stage.network.cut(other.host, absent.host)
        assert await stage.send(b"two", seconds=0.5) is None
        assert leader.node is not None
        partition, image = leader.node.broker.partitions[AT], leader.node.broker.metadata.image
        known = image.broker_epochs[absent.node_id]
        end_offset, epoch = partition.log.end_offset, partition.leader_epoch
        link = await Link.open(leader.host, INTER_BROKER_PORT, "poser", Deadline.after(10.0))
        for said in (-1, known - 1, known + 1, 2**60):
            row = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=end_offset, partition_max_bytes=1000)
            identity = image.topics[TOPIC].identity.value.bytes
            request = FetchRequest(max_wait_ms=1, topics=[FetchTopic(topic_id=identity, partitions=[row])])
            request.replica_state = ReplicaState(absent.node_id, said)
            answer = await link.call(ApiKey.FETCH, request, Deadline.after(10.0), at_most=17)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.high_watermark < end_offset

    play(script)
