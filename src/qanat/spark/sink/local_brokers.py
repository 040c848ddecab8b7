"""Brokers on this machine: they ingest files that are staged in their data directories.

A broker counts as local only after checks: its address is one of this machine, and the data directory that it reports
is writable and names this broker and cluster. A process that can write there could also write to the logs.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.staged import FEATURE, FOLDER

_ASKED_S = 5.0
"""Time limit of the checks; after it, rows are staged elsewhere and sent."""
_LEFT_BEHIND_S = 7 * 24 * 3600.0
"""Age at which files of dead drivers are deleted."""


class LocalStaging(NamedTuple):
    """The staging folder of a local broker."""

    path: str
    takes_small: bool
    """Whether the broker appends small files; an older one makes every file a segment."""


class LocalBrokers:
    """Staging folders of local brokers, by the partitions that they lead."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._locations: dict[int, LocalStaging | None] = {}
        """By the broker's number; None for brokers elsewhere."""

    async def location(self, at: TopicPartition) -> LocalStaging | None:
        """The staging folder of the broker that leads a partition; None where it is not local."""
        deadline = Deadline.after(_ASKED_S)
        try:
            leader = (await self._cluster.known_topic(at.topic, deadline)).leaders[at.partition]
            if leader not in self._locations:
                self._locations[leader] = None
                self._locations[leader] = await _staging_of(self._cluster, leader, deadline)
        except QanatError:
            return None
        return self._locations[leader]


async def _staging_of(cluster: Cluster, node_id: int, deadline: Deadline) -> LocalStaging | None:
    known = await cluster.metadata([], deadline)
    if not any(broker.node_id == node_id and _is_here(broker.host) for broker in known.brokers):
        return None
    link = await cluster.node_link(node_id, deadline)
    response: DescribeLogDirsResponse = await link.call(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest([]), deadline)
    for result in response.results:
        if not result.error_code and _is_of(result.log_dir, known.cluster_id or "", node_id):
            path = _prepared(Path(result.log_dir) / FOLDER)
            return None if path is None else LocalStaging(path, link.features.get(FEATURE, 0) > 0)
    return None


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine: only its own addresses can be bound."""
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
                probe.bind(address)
                return True
    except OSError:
        pass
    return False


def _is_of(path: str, cluster_id: str, node_id: int) -> bool:
    """Whether a directory of this machine is the data directory of a broker."""
    try:
        lines = (Path(path) / "meta.properties").read_text(errors="replace").splitlines()
    except OSError:
        return False
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    return (
        "qanat.format" in said
        and (said.get("cluster.id"), said.get("node.id")) == (cluster_id, str(node_id))
        and os.access(path, os.W_OK)
    )


def _prepared(folder: Path) -> str | None:
    """The folder, created if needed, without the old files of dead drivers."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = list(folder.iterdir())
    except OSError:
        return None
    for one in found:
        with suppress(OSError):  # Another task may delete it, too.
            if time.time() - one.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(one, ignore_errors=True)
    return str(folder)
