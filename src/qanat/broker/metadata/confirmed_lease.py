"""Whether our lease was renewed lately enough to act in its name (C81).

A lease that we believe in may be over: the store ended it early, or our renewals do not get through. The controller's
changes, changes of in-sync sets and evictions therefore wait until the store has confirmed the lease within its time
less a margin, by a clock that nobody sets. That is no fence, since a commit may be on its way for longer: every commit
compares our registration as well. It keeps a broker that is cut off from competing with its successor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.broker.metadata.registration import Membership
    from qanat.cluster.store import KeptLease

MARGIN = 0.25
"""Of the lease's time. It is renewed three times in that, so one renewal may fail without anything waiting."""
_LOOK_S = 0.02


async def confirmed(membership: Membership) -> None:
    """Return once our lease, perhaps a new one, has more than the margin left. In health that is at once."""
    while not _is_confirmed(membership.kept):  # noqa: ASYNC110 - a lease does not say when it is renewed
        await asyncio.sleep(_LOOK_S)


def _is_confirmed(kept: KeptLease | None) -> bool:
    return kept is not None and kept.remaining_ms() > MARGIN * kept.lease.ttl_ms
