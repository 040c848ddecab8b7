"""Settings of the transaction coordinator, under Kafka's names."""

from __future__ import annotations

from qanat.model.settings import Positive, Settings

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


class TransactionSettings(Settings, frozen=True):
    """A coordinator's settings; defaults are Kafka's."""

    transaction_max_timeout_ms: Positive = 15 * _MINUTE_MS
    """Longest transaction timeout that a producer may request."""
    transactional_id_expiration_ms: Positive = 7 * 24 * _HOUR_MS
    """A transactional id that was unused for so long is removed."""
    transaction_remove_expired_transaction_cleanup_interval_ms: Positive = _HOUR_MS
    """How often expired transactional ids are removed."""
    transaction_state_log_num_partitions: Positive = 50
    """Partitions of __transaction_state; must not change once there are transactional ids."""
    transaction_state_log_replication_factor: Positive = 3
    """Replicas of __transaction_state, as far as there are brokers; more are added as brokers join."""
    transaction_partition_verification_enable: bool = True
    """Whether a transactional write is refused unless the coordinator confirms its partition."""
