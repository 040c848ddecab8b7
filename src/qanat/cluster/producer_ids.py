"""Producer ids, unique in the cluster: allocated here, in blocks of 1,000 from the store.

A block is claimed by compare-and-set on one counter, so no id is ever allocated twice. Ids are lost when a process
stops, or when it does not learn whether its claim succeeded; there are 2^63 of them.

Some are always in reserve, so that producers can begin while the store is away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from qanat.cluster import keys, values
from qanat.cluster.store import Absent, Entry, MetadataStore, ModifiedAt, Put, Refused
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import ProducerId

BLOCK_SIZE = 1_000
RESERVE = BLOCK_SIZE // 2
"""Where fewer are left, the next block is fetched."""
CLAIMS_MAX = 100
"""Lost races for one id before giving up: each loss means that another broker made progress."""


class ProducerIdAllocator:
    """Allocates producer ids from blocks of its own."""

    def __init__(
        self, store: MetadataStore, spawn: Callable[[Coroutine[Any, Any, None]], object] | None = None
    ) -> None:
        """`spawn` runs a coroutine as a task; without it nothing is fetched before it is needed."""
        self._store = store
        self._spawn = spawn
        self._blocks: deque[range] = deque()
        self._is_fetching = False

    async def allocate(self) -> ProducerId:
        """An unused id. Many callers may ask at once: one that loses a race takes from the winner's block."""
        for _ in range(CLAIMS_MAX):
            if (producer_id := self._take()) is not None:
                self.look_ahead()
                return producer_id
            await self._claim()
        raise StoreUnavailableError(
            f"no block of producer ids after {CLAIMS_MAX} attempts: other brokers were faster each time; try again"
        )

    def look_ahead(self) -> None:
        """Begin to fetch the next block where few are left."""
        if self._spawn is not None and not self._is_fetching and sum(map(len, self._blocks)) < RESERVE:
            self._is_fetching = True
            self._spawn(self._fetch())

    async def _fetch(self) -> None:
        try:
            await self._claim()
        except StoreUnavailableError:
            pass  # The next allocation tries again.
        finally:
            self._is_fetching = False

    def _take(self) -> ProducerId | None:
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return ProducerId(block[0])

    async def _claim(self) -> None:
        """Try once to move the counter by a block; a lost race is fine."""
        entry = await self._store.get(keys.PRODUCER_IDS)
        first = _first_free(entry)
        compare = Absent(keys.PRODUCER_IDS) if entry is None else ModifiedAt(keys.PRODUCER_IDS, entry.mod_revision)
        value = values.encode(values.ProducerIdBlock(next=first + BLOCK_SIZE))
        outcome = await self._store.commit([compare], [Put(keys.PRODUCER_IDS, value)])
        if not isinstance(outcome, Refused):
            self._blocks.append(range(first, first + BLOCK_SIZE))


def _first_free(entry: Entry | None) -> int:
    return 0 if entry is None else values.decode(values.ProducerIdBlock, entry.value).next
