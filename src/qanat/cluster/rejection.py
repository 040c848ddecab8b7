"""A decision's "no": an outcome, not a fault."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.model.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request is refused: Kafka's code, and one sentence for a person."""

    code: ErrorCode
    message: str
