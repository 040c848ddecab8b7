"""What every worker of a handler is given."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from qanat.client.app.pools import Pools
from qanat.client.app.ports import Clients, Sender
from qanat.client.app.tracing import Tracing

if TYPE_CHECKING:
    from qanat.client.app.handlers import ErrorHandler


@dataclass(frozen=True, slots=True)
class Tools:
    """Clients, pools, traces and jitter of one worker process."""

    clients: Clients
    sender: Sender
    """The producer of what handlers send outside of transactions."""
    pools: Pools
    tracing: Tracing
    random: Random
    grace_s: float
    error_handler: ErrorHandler | None = None
    """The app's, for handlers that have none of their own."""
