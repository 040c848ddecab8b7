"""The parts of a producer, put together: settings, sender, accumulator, core."""

from __future__ import annotations

from collections.abc import Mapping

from qanat.client.io_loop import IoLoop
from qanat.client.producer.accumulator import Accumulator
from qanat.client.producer.partitioners import partitioner_of
from qanat.client.producer.producer_core import ProducerCore
from qanat.client.producer.sending import Sender
from qanat.client.producer.settings import ProducerSettings
from qanat.client.producer.transactions import TransactionCore
from qanat.client.settings import Servers, read_settings


class ProducerParts:
    """What `AsyncProducer` and `Producer` share."""

    def __init__(
        self,
        servers: Servers,
        key: object,
        value: object,
        transactional_id: str | None,
        io: IoLoop | None,
        given: Mapping[str, object],
    ) -> None:
        named = dict(given)
        if transactional_id is not None:
            named["transactional_id"] = transactional_id
        settings = read_settings(ProducerSettings, servers, named)
        self.settings = settings
        partitioner = partitioner_of(settings.partitioner)
        accumulator = Accumulator(
            batch_bytes=min(settings.batch_size, settings.max_request_size),
            buffer_bytes=settings.buffer_memory,
            record_bytes=settings.max_request_size,
            wake=self._wake,
        )
        self.sender = Sender(
            accumulator,
            partitioner,
            key if key is not None else settings.key_serializer,
            value if value is not None else settings.value_serializer,
        )
        self.sender.is_stopped = settings.transactional_id is not None
        self._is_ours = io is None
        self.io = io if io is not None else IoLoop.start(f"the producer {settings.client_id}")
        self.core = ProducerCore(settings, self.io, self.sender, accumulator)
        self.transactions = TransactionCore(self.core, accumulator)

    def _wake(self) -> None:
        self.io.soon(self.core.drain)

    def end(self) -> None:
        """End the thread, where it is ours."""
        if self._is_ours:
            self.io.close()
