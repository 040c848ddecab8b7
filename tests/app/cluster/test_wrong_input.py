"""Mistakes of operators and of unauthenticated clients on a cluster of real brokers, each with one clear sentence."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.adapters.etcd_servers import etcd_members
from tools.brokers import BrokerProcesses, free_ports

from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from qanat.wire.kafka.registry import ApiKey

pytestmark = pytest.mark.long


def _start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    port, inter_broker = free_ports(2)
    command = [
        sys.executable,
        "-m",
        "qanat.app",
        "start",
        "--port",
        str(port),
        "-X",
        f"inter.broker.port={inter_broker}",
    ]
    command += ["-X", "http.port=-1", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def _last_line(found: subprocess.CompletedProcess[str]) -> str:
    assert found.returncode == 1, found.stderr
    assert "Traceback" not in found.stderr
    return found.stderr.strip().splitlines()[-1]


def test_a_second_broker_with_a_number_that_is_taken_does_not_start(tmp_path: Path) -> None:
    with etcd_members() as (etcd,):
        settings = {"metadata.store": "etcd", "metadata.etcd.endpoints": etcd.plan.client_url}
        with BrokerProcesses(tmp_path, 1, {**settings, "default.replication.factor": "1"}) as brokers:
            words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
            (tmp_path / "other").mkdir()
            found = _start(tmp_path / "other", "--node-id", "0", *words)
            assert "has the node id 0: choose another one (--node-id), or stop that broker first" in _last_line(found)
            assert brokers.processes[0].poll() is None
        other = BrokerProcesses(tmp_path / "other", 1)
        other.folder.mkdir()
        with other:
            found = _start(other.folder, "--node-id", "0", "--data-dir", str(other.folder / "data"))
            assert "data/broker-0" in _last_line(found)


def test_the_data_of_another_cluster_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with BrokerProcesses(tmp_path / name, 1, {"default.replication.factor": "1"}) as brokers:
            brokers.create("orders", replicas=1)
            assert brokers.stop(0) == 0
    shutil.rmtree(tmp_path / "two" / "data" / "broker-0")
    shutil.copytree(tmp_path / "one" / "data" / "broker-0", tmp_path / "two" / "data" / "broker-0")
    found = _start(tmp_path, "--node-id", "0", "--data-dir", str(tmp_path / "two" / "data"))
    assert "belongs to cluster.id" in _last_line(found)


def test_more_replicas_than_brokers_and_a_move_to_no_broker_are_refused(tmp_path: Path) -> None:
    with BrokerProcesses(tmp_path) as brokers:
        created = brokers.command("topic", "create", "orders", "--replicas", "5")
        assert created.returncode == 1
        assert "only 3 broker(s) are registered" in created.stderr
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        with pytest.raises(KafkaException, match="replication factor"):
            admin.create_topics([NewTopic("orders", 1, 5)])["orders"].result(30)
        brokers.create("orders")
        moved = brokers.command("cluster", "reassign", "orders:0", "--to", "0,1,9")
        assert moved.returncode == 1
        assert "broker 9, but no such broker is registered. Registered are: 0, 1, 2" in moved.stderr
        drained = brokers.command("cluster", "drain", "9")
        assert "there is no broker 9; there are 0, 1, 2" in drained.stderr


def test_a_client_that_poses_as_a_replica_gets_nothing_and_moves_nothing(tmp_path: Path) -> None:
    with BrokerProcesses(tmp_path) as brokers:
        brokers.create("orders")
        leader = brokers.look("orders").topics["orders"].partitions[0].leader
        follower = next(one for one in range(3) if one != leader)

        async def pose(port: int, epoch: int) -> FetchResponse:
            deadline = Deadline.after(30.0)
            link = await Link.open("127.0.0.1", port, "poser", deadline)
            partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=0)
            request = FetchRequest(max_wait_ms=10, topics=[FetchTopic("orders", partitions=[partition])])
            request.replica_id = follower
            request.replica_state = ReplicaState(follower, epoch)
            answer: FetchResponse = await link.call(ApiKey.FETCH, request, deadline, at_most=12)
            await link.close()
            return answer

        refused = asyncio.run(pose(brokers.ports[leader], 1))
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        among = asyncio.run(pose(brokers.inter_broker_ports[leader], 2**60))
        assert [one.error_code for one in among.responses[0].partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
