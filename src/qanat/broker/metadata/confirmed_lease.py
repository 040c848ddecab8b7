"""Confirmed lease: whether our lease was renewed recently enough to act on it (C81).

A lease that we believe in may be over: the store ended it early, or our renewals do not get through. The controller's
changes, changes of in-sync sets and evictions therefore wait until the store has confirmed the lease within its time
less a margin, by the steady clock. That is no fence, since a commit may be on its way for longer: every commit compares
our registration as well. But it stops a broker that is cut off from competing with its successor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.broker.metadata.registration import Membership
    from qanat.cluster.store import KeptLease

MARGIN = 0.25
"""Share of the lease's time. The lease is renewed three times in its life, so one renewal may fail without any
delay."""
_LOOK_S = 0.02


async def confirmed(membership: Membership) -> None:
    """Return once our lease, perhaps a new one, has more than the margin left. In health that is at once."""
    while not is_confirmed(membership.kept_lease):  # noqa: ASYNC110 - a lease does not say when it is renewed
        await asyncio.sleep(_LOOK_S)


def is_confirmed(kept: KeptLease | None) -> bool:
    """Whether our lease has more than the margin left."""
    return kept is not None and kept.remaining_ms() > MARGIN * kept.lease.ttl_ms
