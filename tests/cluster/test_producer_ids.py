"""No producer id is allocated twice, whichever brokers ask and whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from qanat.adapters.memory_store import MemoryStore
from qanat.cluster import keys, values
from qanat.cluster.producer_ids import BLOCK_SIZE, CLAIMS_MAX, RESERVE, ProducerIdAllocator
from qanat.cluster.store import Committed, Compare, Entry, Operation, Put, Refused
from qanat.model.errors import StoreUnavailableError


class HesitantStore(MemoryStore):
    """Lets others run between reading and writing, so that claims collide."""

    async def get(self, key: str) -> Entry | None:
        entry = await super().get(key)
        await asyncio.sleep(0)
        return entry


class DoubtfulStore(MemoryStore):
    """Commits, then loses the answer, once."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts = 1

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        outcome = await super().commit(compares, operations)
        if self.doubts:
            self.doubts -= 1
            raise StoreUnavailableError("no answer")
        return outcome


class RacedStore(MemoryStore):
    """Another broker is always faster."""

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        value = values.encode(values.ProducerIdBlock(next=5))
        await super().commit([], [Put(keys.PRODUCER_IDS, value)])
        return await super().commit(compares, operations)


def test_ids_count_up_from_zero_through_blocks() -> None:
    async def test() -> None:
        store = MemoryStore()
        allocator = ProducerIdAllocator(store)
        ids = [await allocator.allocate() for _ in range(BLOCK_SIZE + 2)]
        assert ids == list(range(BLOCK_SIZE + 2))
        entry = await store.get(keys.PRODUCER_IDS)
        assert entry is not None
        assert values.decode(values.ProducerIdBlock, entry.value).next == 2 * BLOCK_SIZE

    asyncio.run(test())


def test_many_who_ask_many_brokers_at_once_get_different_ids() -> None:
    async def test() -> None:
        store = HesitantStore()
        allocators = [ProducerIdAllocator(store) for _ in range(3)]
        ids = await asyncio.gather(*(allocators[number % 3].allocate() for number in range(5_000)))
        assert len(set(ids)) == 5_000
        assert max(ids) < 3 * 3 * BLOCK_SIZE

    asyncio.run(test())


def test_a_claim_of_unknown_outcome_costs_a_block_and_no_more() -> None:
    async def test() -> None:
        allocator = ProducerIdAllocator(DoubtfulStore())
        with pytest.raises(StoreUnavailableError):
            await allocator.allocate()
        assert await allocator.allocate() == BLOCK_SIZE

    asyncio.run(test())


def test_an_endless_race_is_given_up() -> None:
    async def test() -> None:
        with pytest.raises(StoreUnavailableError, match=str(CLAIMS_MAX)):
            await ProducerIdAllocator(RacedStore()).allocate()

    asyncio.run(test())


class AwayStore(MemoryStore):
    """Answers until it is away."""

    is_away = False

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        if self.is_away:
            raise StoreUnavailableError("away")
        return await super().commit(compares, operations)


async def test_ids_are_handed_out_while_the_store_is_away() -> None:
    store, tasks = AwayStore(), list[asyncio.Task[None]]()
    allocator = ProducerIdAllocator(store, lambda work: tasks.append(asyncio.ensure_future(work)))
    allocator.look_ahead()
    await asyncio.gather(*tasks)
    store.is_away = True
    away = [await allocator.allocate() for _ in range(BLOCK_SIZE)]
    with pytest.raises(StoreUnavailableError):
        await allocator.allocate()
    store.is_away = False
    back = await allocator.allocate()
    await asyncio.gather(*tasks)
    assert len({*away, back}) == BLOCK_SIZE + 1


async def test_the_next_block_is_fetched_before_the_last_one_runs_out() -> None:
    store, tasks = AwayStore(), list[asyncio.Task[None]]()
    allocator = ProducerIdAllocator(store, lambda work: tasks.append(asyncio.ensure_future(work)))
    for _ in range(BLOCK_SIZE - RESERVE + 2):
        await allocator.allocate()
    await asyncio.gather(*tasks)
    store.is_away = True
    assert len({await allocator.allocate() for _ in range(BLOCK_SIZE)}) == BLOCK_SIZE
