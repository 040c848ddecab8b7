"""Producer ids, unique in the cluster: handed out here, in blocks of 1,000 from the store.

A block is claimed by compare-and-set on one counter, so no id is ever given twice. Ids are lost when a
process stops, or when it does not learn whether its claim succeeded; there are 2^63 of them.
"""

from __future__ import annotations

from collections import deque

from qanat.cluster import keys, values
from qanat.cluster.store import Absent, Entry, MetadataStore, ModifiedAt, Put, Refused
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import ProducerId

BLOCK_SIZE = 1_000
CLAIMS_MAX = 100
"""Lost races for one id before giving up: each loss means that somebody else made progress."""


class ProducerIdAllocator:
    """Hands out producer ids from blocks of its own."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._blocks: deque[range] = deque()

    async def allocate(self) -> ProducerId:
        """An id that nobody else has. Many may ask at once: whoever loses a race takes from the winner's block."""
        for _ in range(CLAIMS_MAX):
            if (producer_id := self._take()) is not None:
                return producer_id
            await self._claim()
        raise StoreUnavailableError(
            f"no block of producer ids after {CLAIMS_MAX} attempts: other brokers were faster each time; try again"
        )

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
