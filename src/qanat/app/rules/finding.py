"""The outcome of one check of `qanat doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check; `advice` is empty when there is nothing to do."""

    check: str
    status: Status
    seen: str
    advice: str = ""
