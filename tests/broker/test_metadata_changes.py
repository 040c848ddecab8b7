"""Changes of the metadata: committed, reported, and carried to their end though the client has gone."""

from __future__ import annotations

import asyncio

import pytest

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.cluster import values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic, TopicPlan, decide_delete
from qanat.model.error_codes import ErrorCode
from qanat.testing import BrokerHere, EmbeddedBroker


def wish(broker: BrokerHere, name: str) -> CreateTopic:
    return CreateTopic(name, broker.node.broker.metadata_changes.new_topic_id(), partitions=2)


async def test_a_topic_is_hosted_and_counted_when_creating_it_returns() -> None:
    async with EmbeddedBroker.here() as here:
        broker = here.node.broker

        made = await broker.metadata_changes.create_topic(wish(here, "orders"))

        assert isinstance(made, TopicPlan)
        assert len(broker.partitions) == 2
        assert broker.counters.topics_created == 1


async def test_a_dry_run_changes_nothing() -> None:
    async with EmbeddedBroker.here() as here:
        broker = here.node.broker

        made = await broker.metadata_changes.create_topic(wish(here, "orders"), is_dry_run=True)

        assert isinstance(made, TopicPlan)
        assert not broker.metadata.image.topics


async def test_deleting_a_topic_reports_the_topic_that_was_there() -> None:
    async with EmbeddedBroker.here() as here:
        broker = here.node.broker
        await broker.metadata_changes.create_topic(wish(here, "orders"))
        before, deleted = broker.metadata.image.topics["orders"], list[values.Topic]()
        broker.metadata_changes.on_topic_deleted = deleted.append

        await broker.metadata_changes.carry_out(lambda image: decide_delete(image, "orders"))

        assert deleted == [before]
        assert broker.counters.topics_deleted == 1
        assert not broker.partitions


async def test_a_decision_is_made_anew_where_another_was_faster_and_given_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with EmbeddedBroker.here() as here:
        broker, looks = here.node.broker, list[MetadataImage]()
        await broker.metadata_changes.create_topic(wish(here, "orders"))

        async def refuse(*_: object) -> bool:
            return False

        def decide(image: MetadataImage) -> TopicPlan | Rejection:
            looks.append(image)
            return decide_delete(image, "orders")

        monkeypatch.setattr(ImageWatcher, "commit", refuse)
        outcome = await broker.metadata_changes.carry_out(decide)
        monkeypatch.undo()

        assert isinstance(outcome, Rejection)
        assert outcome.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(looks) == 10
        assert "orders" in broker.metadata.image.topics


async def test_a_topic_is_created_to_the_end_though_its_client_has_gone() -> None:
    async with EmbeddedBroker.here() as here:
        broker = here.node.broker
        creating = asyncio.create_task(broker.metadata_changes.create_topic(wish(here, "orders")))
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating

        async with asyncio.timeout(30):
            while broker.counters.topics_created == 0:  # noqa: ASYNC110 - the client that would be answered has gone
                await asyncio.sleep(0.005)
        assert len(broker.partitions) == 2


async def test_a_cluster_has_the_id_that_its_first_broker_wrote() -> None:
    async with EmbeddedBroker.here() as here:
        broker = here.node.broker
        before = broker.metadata.image.cluster_id

        await broker.metadata_changes.create_cluster("another")

        assert broker.metadata.image.cluster_id == before
