"""Rejection: a decision's "no", an outcome and not a fault."""

from __future__ import annotations

from msgspec import Struct

from qanat.model.error_codes import ErrorCode


class Rejection(Struct, frozen=True):
    """Why a request is refused: Kafka's code, and one sentence for a person."""

    code: ErrorCode
    message: str
