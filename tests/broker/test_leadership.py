"""Which partitions a broker leads: those that the store gave to this very process, and sole replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.cluster.images import apply, image_with, new_topic_id
from tests.log.directories import opened, running

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.broker.settings import topic_settings
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Delete, Put
from qanat.model.ids import TopicPartition

ME, OTHER = 0, 1
AT = TopicPartition("orders", 0)
REGISTERED = 1
"""The revision at which both brokers of an image were registered."""


def image_of(state: values.PartitionState) -> MetadataImage:
    image = image_with((ME, OTHER))
    assert image.broker_epochs[ME] == REGISTERED
    identity = new_topic_id()
    topic = values.Topic(name="orders", topic_id=str(identity), partitions=(state.replicas,))
    apply(
        image,
        [
            Put(keys.topic("orders"), values.encode(topic)),
            Put(keys.topic_id(identity), values.encode(values.TopicReference(name="orders"))),
        ],
    )
    apply(image, [Put(keys.partition(identity, 0), values.encode(state))])
    return image


async def leads(image: MetadataImage) -> bool:
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.create_task(work))

    async with running(opened(MemoryFiles())) as runtime:
        local_replicas = LocalReplicas(
            ME, runtime, image, lambda _: topic_settings.parse({}), spawn, lambda: 0, lambda: 1
        )
        await local_replicas.start(image.revision)
        assert AT in local_replicas.logs
        for task in tasks:  # A checkpoint is due some time later.
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return AT in local_replicas.partitions


def state(*in_sync: values.Member, leader: int = ME, replicas: tuple[int, ...] = (ME, OTHER)) -> values.PartitionState:
    return values.PartitionState(leader=leader, leader_epoch=4, replicas=replicas, in_sync=in_sync)


@pytest.mark.parametrize(("since", "is_led"), [(REGISTERED, True), (REGISTERED + 1, True), (REGISTERED - 1, False)])
async def test_c02_a_broker_leads_what_was_given_to_this_process_and_not_to_the_one_before(
    since: int, is_led: bool
) -> None:
    assert await leads(image_of(state(values.Member(ME, since)))) is is_led


async def test_a_broker_that_is_not_in_sync_does_not_lead_though_it_is_named() -> None:
    assert not await leads(image_of(state(values.Member(OTHER, REGISTERED))))


async def test_a_broker_that_is_not_registered_leads_nothing_that_others_hold_too() -> None:
    image = image_of(state(values.Member(ME, REGISTERED)))
    apply(image, [Delete(keys.broker(ME))])

    assert not await leads(image)


async def test_a_sole_replica_is_led_whichever_process_it_was_given_to() -> None:
    image = image_of(state(values.Member(ME, REGISTERED - 1), replicas=(ME,)))
    apply(image, [Delete(keys.broker(ME))])

    assert await leads(image)


async def test_what_another_leads_is_not_led_here() -> None:
    assert not await leads(image_of(state(values.Member(ME, REGISTERED), leader=OTHER)))
