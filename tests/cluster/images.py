"""Images to decide on: built as a broker builds them, by events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import UUID

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Delete, DeletePrefix, Event, EventKind, Operation, Put, Revision
from qanat.model.ids import TopicId

_numbers = count(16)


def new_topic_id() -> TopicId:
    return TopicId(UUID(int=next(_numbers)))


def registration(node_id: int) -> values.BrokerRegistration:
    listener = values.Listener(name="PLAINTEXT", host="localhost", port=9092 + node_id)
    return values.BrokerRegistration(node_id=node_id, epoch=1, incarnation=f"i{node_id}", listeners=(listener,))


def image_with(brokers: Sequence[int] = (0,)) -> MetadataImage:
    image = MetadataImage()
    apply(image, [Put(keys.broker(node_id), values.encode(registration(node_id))) for node_id in brokers])
    return image


def apply(image: MetadataImage, operations: Sequence[Operation]) -> None:
    """Apply a plan to an image, as the store and its watch would."""
    revision = Revision(image.revision + 1)
    for operation in operations:
        match operation:
            case Put(key, value):
                image.apply(Event(EventKind.PUT, key, value, revision, revision))
            case Delete(key):
                image.apply(Event(EventKind.DELETE, key, b"", revision))
            case DeletePrefix(prefix):
                for key in [key for key in image.revisions if key.startswith(prefix)]:
                    image.apply(Event(EventKind.DELETE, key, b"", revision))
