"""The subscribers of a broker, as `qanat push list` shows them, with how far each is behind.

Lag counts the records that can be read and are not acknowledged, sent or not. In a queue it is the group's: its workers
have no partitions of their own.

Rule: what another broker has to answer is asked once for all subscribers, and not waited for any longer than people
      would; where it does not answer, the lag is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from qanat.connection.deadline import Deadline
from qanat.connection.offsets import LATEST, list_offsets
from qanat.connection.share_offsets import share_standings
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.push.queue import QueueSubscription
from qanat.wire.push.control import ConnectedConsumer

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.servers.push.connection import PushConnection
    from qanat.servers.push.local_cluster import LocalCluster

_ANSWER_S = 3.0


async def connected_consumers(broker: Broker, connections: Iterable[PushConnection]) -> list[ConnectedConsumer]:
    """A row for each of these connections that has a subscription."""
    subscribed = [one for one in connections if one.subscription is not None]
    ends, queued = await asyncio.gather(_ends(broker, subscribed), _queued(subscribed))
    rows = (_row(one, ends, queued) for one in subscribed)
    return [row for row in rows if row is not None]


def _row(
    connection: PushConnection, ends: Mapping[TopicPartition, int], queued: Mapping[str, int]
) -> ConnectedConsumer | None:
    subscription = connection.subscription
    if subscription is None:
        return None  # It ended meanwhile.
    lag, unknown = 0, 0
    if isinstance(subscription, QueueSubscription):
        lag, unknown = queued.get(subscription.group, 0), int(subscription.group not in queued)
    else:
        for at, (offset, unacknowledged) in subscription.unfinished().items():
            lag += unacknowledged + max(ends.get(at, offset) - offset, 0)
            unknown += at not in ends
    return ConnectedConsumer(
        peer=connection.peer,
        client=connection.client,
        principal=str(connection.principal),
        topics=list(connection.partition_counts),
        group=subscription.group,
        mode=subscription.mode,
        out_records=subscription.out_records,
        credit_records=subscription.credit.max_records,
        lag=lag,
        last_ack=subscription.acknowledged_id,
        refresh=subscription.refresh,
        unknown_lags=unknown,
    )


async def _ends(broker: Broker, subscribed: Iterable[PushConnection]) -> dict[TopicPartition, int]:
    """The end of every partition that is delivered: of those that other brokers lead, what these answer in time."""
    found: dict[TopicPartition, int] = {}
    elsewhere: dict[str, tuple[LocalCluster, dict[int, int]]] = {}
    for connection in subscribed:
        subscription = connection.subscription
        if subscription is None or isinstance(subscription, QueueSubscription):
            continue
        for at in subscription.unfinished():
            partition = broker.partitions.get(at)
            if partition is not None:
                found[at] = partition.end_of_reading(is_committed=True)
            else:
                elsewhere.setdefault(at.topic, (connection.cluster, {}))[1][at.partition] = LATEST

    async def ask(topic: str, cluster: LocalCluster, moments: Mapping[int, int]) -> None:
        with suppress(QanatError):
            deadline = Deadline.after(_ANSWER_S)
            answers = await list_offsets(cluster, topic, moments, deadline, is_committed_only=True)
            found.update({TopicPartition(topic, number): one.offset for number, one in answers.items()})

    await asyncio.gather(*(ask(topic, *asked) for topic, asked in elsewhere.items()))
    return found


async def _queued(subscribed: Iterable[PushConnection]) -> dict[str, int]:
    """The records that each queue has not finished; groups of which that is not known are left out."""
    clusters = {
        one.subscription.group: one.cluster for one in subscribed if isinstance(one.subscription, QueueSubscription)
    }
    found: dict[str, int] = {}

    async def ask(group: str, cluster: LocalCluster) -> None:
        with suppress(QanatError):
            standings = await share_standings(cluster, group, Deadline.after(_ANSWER_S))
            if all(one.lag is not None for one in standings.values()):
                found[group] = sum(one.lag or 0 for one in standings.values())

    await asyncio.gather(*(ask(group, cluster) for group, cluster in clusters.items()))
    return found
