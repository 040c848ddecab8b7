"""The metadata image stays correct although its store's watch lies (C80)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from qanat.adapters.memory_store import MemoryStore
from qanat.broker.metadata import image_watcher
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import (
    Absent,
    Changes,
    Compacted,
    Delete,
    Event,
    EventKind,
    MetadataStore,
    ModifiedAt,
    Put,
    Revision,
    Snapshot,
)

Told = Changes | Compacted
Lie = Callable[[AsyncGenerator[Told, None]], AsyncGenerator[Told, None]]


class LyingStore(MemoryStore):
    """A store whose watchers get a lie instead of the truth."""

    def __init__(self, lie: Lie) -> None:
        super().__init__()
        self._lie = lie

    def watch(self, prefix: str, after_revision: Revision) -> AsyncGenerator[Told, None]:
        return self._lie(super().watch(prefix, after_revision))


async def gap(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """Every second change is missing."""
    number = 0
    async for change in truth:
        number += 1
        if number % 2:
            yield change


async def twice(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    async for change in truth:
        yield change
        yield change


async def from_the_past(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """Every change is followed by all that came before it."""
    heard: list[Told] = []
    async for change in truth:
        heard.append(change)
        yield change
        for old in heard:
            yield old


async def lost_deletion(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    async for change in truth:
        if isinstance(change, Compacted):
            yield change
            continue
        kept = tuple(event for event in change.events if event.kind is EventKind.PUT)
        if kept:
            yield Changes(change.revision, kept)


async def stall(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """One change, and then nothing for ever."""
    yield await anext(truth)
    await asyncio.Event().wait()


async def compaction(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """Every change is the last of its watch, and history is compacted behind it."""
    change = await anext(truth)
    yield change
    yield Compacted(change.revision)


LIES: Sequence[Lie] = (gap, twice, from_the_past, lost_deletion, stall, compaction)


@asynccontextmanager
async def kept_up(store: MetadataStore) -> AsyncIterator[ImageWatcher]:
    keeper = ImageWatcher(store, lambda events: None)
    await keeper.start()
    try:
        async with asyncio.timeout(60):
            yield keeper
    finally:
        await keeper.close()


def settings_of(topic: str, number: int) -> Put:
    config = values.TopicConfig(overrides={"retention.ms": str(number)})
    return Put(keys.topic_config(topic), values.encode(config))


def contents(image: MetadataImage) -> object:
    return image.revision, image.revisions, image.topic_configs


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_c80_the_picture_becomes_right_whatever_the_watch_says(lie: Lie, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_watcher, "RECONCILE_S", 0.05)
    store = LyingStore(lie)
    async with kept_up(store) as keeper:
        for number in range(20):
            await store.commit([], [settings_of(f"t{number % 5}", number)])
            if number % 3 == 0:
                await store.commit([], [Delete(keys.topic_config(f"t{number % 4}"))])
            await asyncio.sleep(0.001)
        truth = MetadataImage.of(await store.list(keys.ROOT))
        while contents(keeper.image) != contents(truth):  # noqa: ASYNC110 - the watcher reports nothing
            await asyncio.sleep(0.01)
    await store.close()


async def test_c80_revisions_only_go_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_watcher, "RECONCILE_S", 0.01)
    store = LyingStore(from_the_past)
    seen: list[Revision] = []
    async with kept_up(store) as keeper:
        keeper._on_events = lambda events: seen.append(keeper.image.revision)
        for number in range(30):
            await store.commit([], [settings_of("t", number)])
            await asyncio.sleep(0.001)
        while keeper.image.revision < 31:  # noqa: ASYNC110 - the watcher reports nothing
            await asyncio.sleep(0.01)
    assert seen == sorted(seen)
    await store.close()


async def test_whoever_commits_does_not_wait_for_a_watch_that_has_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_watcher, "REACH_S", 0.05)
    store = LyingStore(stall)
    async with kept_up(store) as keeper:
        for number in range(3):
            assert await keeper.commit([], [settings_of("t", number)])
            assert keeper.image.topic_configs["t"] == {"retention.ms": str(number)}
    await store.close()


async def deaf_to_the_first(truth: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    """The first change is missing, and later ones are not."""
    await anext(truth)
    async for change in truth:
        yield change


async def test_c80_whoever_commits_sees_it_though_the_watch_goes_past_it() -> None:
    store = LyingStore(deaf_to_the_first)
    async with kept_up(store) as keeper:
        committing = asyncio.create_task(keeper.commit([], [settings_of("t", 1)]))
        await asyncio.sleep(0)
        await store.commit([], [settings_of("other", 1)])
        assert await committing
        assert keeper.image.topic_configs["t"] == {"retention.ms": "1"}
    await store.close()


async def test_c80_whoever_deletes_no_longer_sees_it_though_the_watch_goes_past_it() -> None:
    store = LyingStore(deaf_to_the_first)
    await store.commit([], [settings_of("t", 1)])
    async with kept_up(store) as keeper:
        assert "t" in keeper.image.topic_configs
        committing = asyncio.create_task(keeper.commit([], [Delete(keys.topic_config("t"))]))
        await asyncio.sleep(0)
        await store.commit([], [settings_of("other", 1)])
        assert await committing
        assert "t" not in keeper.image.topic_configs
    await store.close()


async def test_a_commit_that_changes_nothing_is_not_waited_for_in_a_store_that_others_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_watcher, "REACH_S", 0.05)
    store = MemoryStore()
    told: list[Event] = []
    async with kept_up(store) as keeper:
        keeper._on_events = told.extend
        await store.commit([], [Put("/others/key", b"")])
        assert await keeper.commit([], [Delete(keys.topic_config("none"))])
    assert told == []
    await store.close()


class CountingStore(LyingStore):
    """Counts how often the whole store is listed."""

    lists = 0

    async def list(self, prefix: str) -> Snapshot:
        self.lists += 1
        return await super().list(prefix)


async def truth(told: AsyncGenerator[Told, None]) -> AsyncGenerator[Told, None]:
    async for change in told:
        yield change


async def test_whoever_is_refused_hears_why_from_the_watch_and_lists_nothing() -> None:
    store = CountingStore(truth)
    async with kept_up(store) as keeper:
        key = keys.topic_config("t")
        await store.commit([], [settings_of("t", 1)])
        assert not await keeper.commit([Absent(key)], [settings_of("t", 2)])
        assert keeper.image.topic_configs["t"] == {"retention.ms": "1"}
        known = keeper.image.unchanged(key)
        await store.commit([], [Delete(key)])
        assert not await keeper.commit([known], [settings_of("t", 3)])
        assert "t" not in keeper.image.topic_configs
    assert store.lists == 1, "at the start"
    await store.close()


@pytest.mark.parametrize("lie", [gap, lost_deletion, stall], ids=lambda lie: lie.__name__)
async def test_whoever_is_refused_and_does_not_hear_why_looks(lie: Lie, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_watcher, "REFUSED_S", 0.02)
    store = CountingStore(lie)
    async with kept_up(store) as keeper:
        key = keys.topic_config("t")
        await store.commit([], [settings_of("t", 1)])
        await store.commit([], [settings_of("other", 1)])
        known = ModifiedAt(key, (await store.list(keys.ROOT)).entries[-1].mod_revision)
        for put in (settings_of("t", 2), Delete(key)):
            await store.commit([], [put])
            assert not await keeper.commit([known], [settings_of("t", 3)])
            truth = MetadataImage.of(await store.list(keys.ROOT))
            assert keeper.image.topic_configs.get("t") == truth.topic_configs.get("t")
    await store.close()


async def test_whoever_stumbles_over_one_change_hears_of_the_next() -> None:
    store, heard, faults = MemoryStore(), list[str](), list[object]()

    def stumble(events: Sequence[Event]) -> None:
        heard.extend(event.key for event in events)
        raise IndexError("a bug")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["message"]))
    keeper = ImageWatcher(store, stumble)
    await keeper.start()
    try:
        for name in ("a", "b"):
            assert await keeper.commit([Absent(keys.topic(name))], [Put(keys.topic(name), b"{}")])
    finally:
        await keeper.close()

    assert heard == [keys.topic("a"), keys.topic("b")]
    assert faults == [image_watcher.LISTENER_FAILED] * 2
