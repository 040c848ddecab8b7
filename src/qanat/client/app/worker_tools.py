"""What every worker of a handler is given."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from qanat.client.app.pools import Pools
from qanat.client.app.ports import Clients, Sender
from qanat.client.app.tracing import Tracing


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
