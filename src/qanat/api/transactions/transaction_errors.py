"""Transaction errors for versions that lack the newer codes."""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode


def fenced_as(error: ErrorCode, version: int, *, known_from: int) -> ErrorCode:
    """Versions without PRODUCER_FENCED get INVALID_PRODUCER_EPOCH."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < known_from
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error


def abortable_as(error: ErrorCode, version: int, *, known_from: int) -> ErrorCode:
    """Versions without TRANSACTION_ABORTABLE get INVALID_TXN_STATE, which ends the producer (KIP-890)."""
    is_unknown = error is ErrorCode.TRANSACTION_ABORTABLE and version < known_from
    return ErrorCode.INVALID_TXN_STATE if is_unknown else error
