"""The copy of the database, while what it copies is replaced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.consuming.stores import P0, P1, open_store, run, stored

from qanat.app.edge.consuming import database_copy
from qanat.app.edge.consuming.database_copy import copy_database
from qanat.app.edge.consuming.record_store import RecordStore
from qanat.app.edge.consuming.store_thread import StoreThread


class Interrupted(StoreThread):
    """Something happens to the store in front of its fifth call: in the middle of the first copy."""

    def __init__(self, event: Callable[[RecordStore], None]) -> None:
        super().__init__()
        self._event = event
        self.calls = 0

    async def call(self, act: Callable[..., Any], *values: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 5:
            await super().call(self._event)
        return await super().call(act, *values, **named)


def refresh(store: RecordStore) -> None:
    store.reset("r1", {P0: (0, 40), P1: (0, 40)})
    stored(store, P0, run(0, 40, "new"), "r1")
    stored(store, P1, run(0, 40, "new"), "r1")
    store.ready("r1", [P0, P1])


def cut_the_log(store: RecordStore) -> None:
    """And fill it again, further than it was."""
    stored(store, P0, run(0, 40, "new", epoch=1))


def make_the_topic_again(store: RecordStore) -> None:
    store.recreated(P0, "another")
    stored(store, P0, run(0, 50, "new"))


@pytest.mark.parametrize("event", [refresh, cut_the_log, make_the_topic_again])
async def test_a_copy_is_of_one_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: Callable[[RecordStore], None]
) -> None:
    monkeypatch.setattr(database_copy, "_SLICE_BYTES", 1)
    thread = Interrupted(event)

    def opened() -> RecordStore:
        store = open_store(tmp_path)
        for first in range(0, 40, 5):
            stored(store, P0, run(first, first + 5, "old"))
            stored(store, P1, run(first, first + 5, "old"))
        return store

    await thread.open(opened)
    try:
        descriptor = await copy_database(thread, str(tmp_path), ("price", "g", 0))
        with os.fdopen(descriptor, "rb") as copied:
            (tmp_path / "copy.db").write_bytes(copied.read())
    finally:
        await thread.close()
    copy = sqlite3.connect(tmp_path / "copy.db")
    found = copy.execute("SELECT substr(value, 1, 3) FROM records WHERE partition = 0").fetchall()
    copy.close()
    assert set(found) == {("new",)}
    assert len(found) >= 40
