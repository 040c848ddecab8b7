"""Settings of producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from qanat.client.settings import ClientSettings
from qanat.model.errors import InvalidSettingError

ACKS: Mapping[str, int] = {"all": -1, "-1": -1, "leader": 1, "1": 1, "none": 0, "0": 0}


class ProducerSettings(ClientSettings, frozen=True, kw_only=True):
    """What a producer can be told."""

    acks: str | int = "all"
    """Whose acknowledgement counts: `all` (all in-sync replicas), `leader`, or `none`."""
    enable_idempotence: bool = True
    """Whether a retry can write a record twice or change the order: not with `acks=all`, unless turned off here."""
    retries: int = 3
    """How often a batch is sent again that a leader took and did not acknowledge. The search for the leader, while it
    moves or cannot be reached, is no retry: `delivery_timeout_ms` ends it."""
    delivery_timeout_ms: int = 120_000
    """How long a record may take until it counts as failed."""
    linger_ms: float = 5
    """How long a batch waits for more records; not while its receipt is awaited and nothing else is on its way."""
    batch_size: int = 512 * 1024
    """The largest batch, in bytes. Batches grow so far only while the broker is busy."""
    compression_type: str = "lz4"
    """`none`, `gzip`, `snappy`, `lz4` or `zstd`."""
    buffer_memory: int = 32 * 1024 * 1024
    """Bytes of records that are not acknowledged; a send waits where there are more."""
    max_request_size: int = 1024 * 1024
    """The largest record, and about the largest request, in bytes."""
    max_in_flight_requests_per_connection: int = 5
    max_block_ms: int = 60_000
    """How long a send waits for the leaders of a new topic."""
    partitioner: object = "murmur2"
    """`murmur2` (as Java: by key, sticky without), `sticky`, `round_robin`, `consistent` (CRC-32 of the key), or a
    function of topic, key and number of partitions."""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    key_serializer: object = None
    value_serializer: object = None

    ALIASES: ClassVar[Mapping[str, str]] = {
        "partitioner_class": "partitioner",
        "compression_codec": "compression_type",
        "queue_buffering_max_ms": "linger_ms",
        "message_timeout_ms": "delivery_timeout_ms",
        "request_required_acks": "acks",
        "message_send_max_retries": "retries",
        "max_in_flight": "max_in_flight_requests_per_connection",
    }
    IGNORED: ClassVar[frozenset[str]] = ClientSettings.IGNORED | {
        "batch_num_messages",
        "partitioner_adaptive_partitioning_enable",
        "partitioner_ignore_keys",
        "queue_buffering_max_messages",
        "send_buffer_bytes",
        "receive_buffer_bytes",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if str(self.acks) not in ACKS:
            raise InvalidSettingError(f"acks is {self.acks!r}, but must be all, leader or none")
        if not 1 <= self.max_in_flight_requests_per_connection <= 5 and self.is_idempotent:
            raise InvalidSettingError(
                "max.in.flight.requests.per.connection must be 1 to 5: a broker recognizes no more repeated batches"
            )
        if self.transactional_id is not None and not self.is_idempotent:
            raise InvalidSettingError("a transactional.id needs acks=all and enable.idempotence=true")

    @property
    def required_acks(self) -> int:
        return ACKS[str(self.acks)]

    @property
    def is_idempotent(self) -> bool:
        return self.enable_idempotence and self.required_acks == ACKS["all"]
