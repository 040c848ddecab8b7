"""Expiry of transactional ids: by age, while they have no open transaction."""

from __future__ import annotations

from qanat.transactions.decision_builder import DecisionBuilder, Timer, TimerKind


def expire(builder: DecisionBuilder) -> None:
    """Remove ids that were unused for too long; a producer that comes back gets a new producer id."""
    oldest_ms = builder.now.wall_ms - builder.state.settings.transactional_id_expiration_ms
    for record in list(builder.state.ledger.records.values()):
        if record.state.is_idle and record.last_update_ms <= oldest_ms:
            builder.forget(record.transactional_id)
    schedule_next(builder)


def schedule_next(builder: DecisionBuilder) -> None:
    interval_ms = builder.state.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    builder.state.timers.schedule(Timer(TimerKind.EXPIRY), builder.now.steady_ms + interval_ms)
