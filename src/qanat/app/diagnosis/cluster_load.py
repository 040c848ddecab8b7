"""The load of all brokers of a cluster, read over the protocol."""

from __future__ import annotations

import asyncio

import msgspec

from qanat.api.configs.broker_load import NAME
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.configs.config_requests import BROKER, describe_configs
from qanat.connection.cluster import Cluster
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.diagnosis.readings import BrokerReading, ClusterReading


async def brokers_of(cluster: Cluster) -> list[int]:
    """The ids of the brokers that are registered."""
    return sorted(one.node_id for one in (await cluster.metadata([], cluster.deadline())).brokers)


async def read_load(cluster: Cluster, brokers: list[int]) -> ClusterReading:
    """The readings of the brokers that answer; in the middle of an upgrade, the older ones do not."""
    lacking: list[int] = []
    found = await asyncio.gather(*(_reading(cluster, node_id, lacking) for node_id in brokers))
    readings = {one.node_id: one for one in found if one is not None}
    if lacking and not readings:
        raise WrongArgumentError(
            f"broker {lacking[0]} does not tell its load: it is Apache Kafka, or an older Qanat; "
            "`qanat cluster status` and `qanat group describe` work with it"
        )
    return readings


async def _reading(cluster: Cluster, node_id: int, lacking: list[int]) -> BrokerReading | None:
    try:
        configs = await describe_configs(cluster, BROKER, str(node_id), [NAME])
    except (UnreachableError, OutOfTimeError):
        return None  # It is down: the others are looked at.
    text = next((one.value for one in configs if one.name == NAME), None)
    if text is None:
        lacking.append(node_id)
        return None
    try:
        return msgspec.json.decode(text, type=BrokerReading)
    except msgspec.MsgspecError:
        return None  # It is of another version: it counts as not seen.
