"""Topic look-up: topics by name, created on first use, or a problem that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.cluster import keys, values
from qanat.connection.deadline import Deadline
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import TopicPartition
from qanat.model.spelling import did_you_mean
from qanat.model.topic_names import INTERNAL_TOPICS, name_problem
from qanat.servers.http.problems import Problem, problem_of
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway

_LISTED_MAX = 20
_LOOK_AGAIN_S = 0.01
_HEARD_S = 2.0
"""How long the metadata image may take to have what is in the store."""


class TopicLookup:
    """The topics that a caller may see."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._broker = gateway.broker

    async def find(self, caller: HttpCaller, name: str, *, may_create: bool = True) -> values.Topic:
        """A topic, created where it is missing and auto-creation is on; raises a problem otherwise."""
        image = self._broker.metadata.image
        found = image.topics.get(name)
        if found is not None and not self._gateway.is_authorized:
            await self._wait_for_replicas(found)
            return found
        if found is None and not self._gateway.is_alone and name_problem(name) is None:
            await self._wait_for_image(name)
            if name in image.topics and not self._gateway.is_authorized:
                return await self.find(caller, name)
        request = MetadataRequest(
            [MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=may_create and self._broker.settings.auto_create_topics_enable,
        )
        response: MetadataResponse = await self._gateway.call(caller, ApiKey.METADATA, request)
        error = response.topics[0].error_code if response.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = image.topics.get(name)
        if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (not error and found is None):
            raise await self._unknown(caller, name)
        if error:
            raise problem_of(error, f"topic {name}")
        assert found is not None
        await self._wait_for_replicas(found)
        return found

    async def _wait_for_image(self, name: str) -> None:
        """Wait for a topic that another node has just created: the store has it before the metadata image."""
        try:
            entry = await self._broker.metadata.store.get(keys.topic(name))
        except StoreUnavailableError:
            return
        deadline = Deadline.after(_HEARD_S)
        while entry is not None and name not in self._broker.metadata.image.topics and not deadline.is_over:
            await deadline.pause(_LOOK_AGAIN_S)

    async def _wait_for_replicas(self, topic: values.Topic) -> None:
        """Wait for the local replicas of a new topic: the metadata image has it before its logs exist."""
        deadline = Deadline.after(self._gateway.timeout_s)
        for number in range(len(topic.partitions)):
            while self._is_being_created(topic, number) and deadline.left_seconds > 0:
                await deadline.pause(_LOOK_AGAIN_S)

    def _is_being_created(self, topic: values.Topic, number: int) -> bool:
        broker, image = self._broker, self._broker.metadata.image
        at = TopicPartition(topic.name, number)
        return (
            at not in broker.partitions
            and image.topics.get(topic.name) is topic
            and image.state(topic, number).leader == broker.node_id
            and broker.local_replicas.why_missing(at) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    async def only(self, caller: HttpCaller) -> values.Topic:
        """The only topic; raises a problem that lists them where there are more, or none."""
        names = await self.names(caller)
        if len(names) == 1:
            return self._broker.metadata.image.topics[names[0]]
        if not names:
            raise Problem(400, "topic is missing: there is no topic yet", topics=[])
        raise Problem(400, f"topic is missing: add topic=NAME; there are {_listed(names)}", topics=names[:_LISTED_MAX])

    async def names(self, caller: HttpCaller) -> list[str]:
        """The names of all topics that the caller may see, without internal ones."""
        image = self._broker.metadata.image
        if not self._gateway.is_authorized:
            return sorted(topic.name for topic in image.topics.values() if not topic.is_internal)
        response: MetadataResponse = await self._gateway.call(caller, ApiKey.METADATA, MetadataRequest(None))
        return sorted(topic.name for topic in response.topics if topic.name and not topic.is_internal)

    async def _unknown(self, caller: HttpCaller, name: str) -> Problem:
        names = await self.names(caller)
        hint = did_you_mean(name, names, f"there are {_listed(names)}" if names else "there is none yet")
        return Problem(
            404,
            f"there is no topic {name}{hint}",
            error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            topics=names[:_LISTED_MAX],
        )

    @staticmethod
    def check_partition(topic: values.Topic, number: int) -> None:
        count = len(topic.partitions)
        if not 0 <= number < count:
            raise Problem(
                404,
                f"topic {topic.name} has no partition {number}: it has {count}, numbered 0 to {count - 1}",
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )


def refuse_internal(topic: str) -> None:
    """Raise a problem for an internal topic: brokers trust what is written there."""
    if topic in INTERNAL_TOPICS:
        raise Problem(
            403,
            f"topic {topic} is written to by brokers only: choose another topic",
            error=ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    return ", ".join(names[:_LISTED_MAX]) + more
