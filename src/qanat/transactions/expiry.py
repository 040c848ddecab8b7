"""How transactional ids end: by age, while nothing of theirs is open."""

from __future__ import annotations

from qanat.transactions.turn import Timer, TimerKind, Turn


def expire(turn: Turn) -> None:
    """Forget ids that were not used for too long; whoever comes back gets a new producer id."""
    oldest_ms = turn.now.wall_ms - turn.state.settings.transactional_id_expiration_ms
    for record in list(turn.state.ledger.records.values()):
        if record.state.is_idle and record.last_update_ms <= oldest_ms:
            turn.forget(record.transactional_id)
    schedule_next(turn)


def schedule_next(turn: Turn) -> None:
    interval_ms = turn.state.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    turn.state.timers.schedule(Timer(TimerKind.EXPIRY), turn.now.steady_ms + interval_ms)
