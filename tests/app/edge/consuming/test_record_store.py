"""The record store of a consumer application on real files: duplicates, refreshes, damage, a full disk."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest
from tests.app.edge.consuming.stores import (
    P0,
    P1,
    TOPIC,
    VolatileIndexes,
    caught_up,
    everything,
    made,
    open_simulated,
    open_store,
    run,
    stored,
    values,
)

from qanat.app.edge.consuming.reading import Query, latest, latest_of, one_record, select
from qanat.app.edge.consuming.record_index import DamagedIndexError
from qanat.app.edge.consuming.record_store import Arrived, RecordStore
from qanat.edge.kept_records import Place
from qanat.model.errors import DirectoryLockedError, DiskFullError, InvalidSettingError, StorageError
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults


def test_a_record_that_comes_again_is_not_stored_twice(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert stored(store, P0, run(0, 5)) == 5
    assert stored(store, P0, run(2, 7)) == 2
    assert (store.stored, store.duplicates) == (7, 3)
    assert values(everything(store)) == [f"v{n}" for n in range(7)]
    store.close()


def test_records_are_there_after_a_restart_and_the_same_ones_are_known(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 50))
    stored(store, P1, run(3, 6, epoch=4))
    store.close()

    again = caught_up(open_store(tmp_path))
    assert len(everything(again)) == 53
    assert again.positions() == {P0: Place(50, 0), P1: Place(6, 4)}
    assert stored(again, P0, run(40, 51)) == 1
    again.close()


def test_an_index_that_missed_the_last_records_is_completed_from_the_segments(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 5))
    index = store.index
    store.index = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        stored(store, P0, run(5, 9))  # As a crash between the segments and the index.
    store.index = index
    store.close()

    again = open_store(tmp_path)
    assert not again.is_indexed
    assert again.unindexed == 4
    assert len(everything(caught_up(again))) == 9
    again.close()


@pytest.mark.parametrize("damage", ["text", "empty", "cut", "page", "table", "format"])
def test_a_damaged_index_is_made_again(tmp_path: Path, damage: str) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 400))
    store.index.close()  # Not clean: as after a kill.
    path = tmp_path / "index.db"
    content = path.read_bytes()
    match damage:
        case "text":
            path.write_bytes(b"this is no database, but a text of some length" * 100)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "page":
            path.write_bytes(content[:4096] + os.urandom(len(content) - 8192) + content[-4096:])
        case "table":
            apsw.Connection(str(path)).execute("DROP INDEX by_key")
        case _:
            apsw.Connection(str(path)).execute("PRAGMA user_version = 99")
    store.index = open_store(tmp_path / "other").index
    store.close()

    again = open_store(tmp_path)
    try:
        found = everything(caught_up(again), Query(TOPIC, key=b"k1"))
    except DamagedIndexError:
        assert damage == "table", "it cannot be noticed before it is used"
        again.rebuild_index()
        found = everything(caught_up(again), Query(TOPIC, key=b"k1"))
    assert [one.record.offset for one in found] == list(range(1, 400, 3))
    again.close()


def test_an_index_that_contradicts_the_segments_is_noticed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 5))
    apsw.Connection(str(tmp_path / "index.db")).execute("UPDATE records SET key = x'4242' WHERE offset = 3")
    with pytest.raises(DamagedIndexError):
        everything(store)
    store.rebuild_index()
    assert len(everything(caught_up(store), Query(TOPIC, key=b"k0"))) == 2
    store.close()


def test_a_damaged_segment_costs_its_records_and_no_others(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for first in range(0, 100, 10):
        stored(store, P0, run(first, first + 10))
    store.close()
    log = min((tmp_path / "generations" / "1" / str(P0)).glob("*.log"))
    content = bytearray(log.read_bytes())
    content[80] ^= 0xFF
    log.write_bytes(content)

    again = caught_up(open_store(tmp_path))
    with pytest.raises(DamagedIndexError):
        everything(again)
    again.rebuild_index()
    found = {one.record.offset for one in everything(caught_up(again))}
    assert found == set(range(10, 100))
    assert one_record(again, P0, 3) is None
    again.close()


def test_the_old_generation_is_served_until_ready(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 10, "old"))
    assert store.reset("r1", {P0: (0, 10)}) == {}
    stored(store, P0, run(0, 6, "new"), "r1")
    assert values(everything(store)) == [f"old{n}" for n in range(10)]
    assert store.reset("r1", {P0: (0, 10)}) == {P0: Place(6, 0)}, "it goes on where it was"
    store.close()

    again = caught_up(open_store(tmp_path))
    assert values(everything(again)) == [f"old{n}" for n in range(10)]
    assert again.reset("r1", {P0: (0, 10)}) == {P0: Place(6, 0)}
    stored(again, P0, run(6, 10, "new"), "r1")
    again.ready("r1", [P0])
    assert values(everything(again)) == [f"new{n}" for n in range(10)]
    assert again.reset("r1", {P0: (0, 10)}) == {P0: Place(10, -1)}, "nothing is missing of it"
    again.ready("r1", [P0])
    caught_up(again)
    assert list(again.index.partitions().values()) == [10], "the old rows are gone"
    assert not list((tmp_path / "generations" / "1").iterdir())
    again.close()


def test_a_refresh_of_some_partitions_leaves_the_others_and_queries_find_both(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 4, "old"))
    stored(store, P1, run(0, 4, "old"))
    store.reset("r1", {P1: (0, 4)})
    stored(store, P1, run(0, 4, "new"), "r1")
    store.ready("r1", [P1])
    caught_up(store)

    assert values(everything(store)) == [*(f"old{n}" for n in range(4)), *(f"new{n}" for n in range(4))]
    by_key = everything(store, Query(TOPIC, key=b"k0"))
    assert values(by_key) == ["old0", "old3", "new0", "new3"]
    by_time = everything(store, Query(TOPIC, times=(1001, 1003)))
    assert [(one.record.timestamp, one.at.partition) for one in by_time] == [(1001, 0), (1001, 1), (1002, 0), (1002, 1)]
    assert {one.record.key for one in latest(store, TOPIC, b"", 10, None).records} == {b"k0", b"k1", b"k2"}
    store.close()


def test_another_refresh_replaces_the_one_that_was_under_way(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 3, "old"))
    store.reset("r1", {P0: (0, 3)})
    stored(store, P0, run(0, 2, "x"), "r1")
    assert store.reset("r2", {P0: (0, 3)}) == {}
    stored(store, P0, run(0, 3, "new"), "r2")
    store.ready("r1", [P0])
    assert values(everything(store)) == ["old0", "old1", "old2"], "r1 is over"
    store.ready("r2", [P0])
    assert values(everything(store)) == ["new0", "new1", "new2"]
    store.close()


def test_an_empty_refresh_serves_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 3, "old"))
    store.reset("r1", {P0: (3, 3)})
    store.ready("r1", [P0])
    assert everything(store) == []
    stored(store, P0, run(3, 5))
    assert values(everything(store)) == ["v3", "v4"]
    store.close()


def test_what_the_broker_declares_void_goes_and_the_rest_of_its_batch_stays(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 10))
    store.void(P0, 4)
    assert values(everything(store)) == ["v0", "v1", "v2", "v3"]
    stored(store, P0, run(4, 6, "w", epoch=3))
    assert [(one.record.value, one.epoch) for one in everything(store)][3:] == [(b"v3", 0), (b"w4", 3), (b"w5", 3)]
    store.void(P0, 0)
    assert everything(store) == []
    store.close()


def test_a_later_epoch_replaces_what_it_contradicts(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 6))
    stored(store, P0, run(3, 5, "w", epoch=1))
    assert values(everything(caught_up(store))) == ["v0", "v1", "v2", "w3", "w4"]
    store.close()


def test_offsets_far_apart_and_a_late_beginning_are_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [5_000_000_000, 5_000_000_001, 9_000_000_000, 2**62]
    stored(store, P0, [made(offset, "far") for offset in offsets])
    store.close()
    again = caught_up(open_store(tmp_path))
    assert [one.record.offset for one in everything(again)] == offsets
    again.close()


def test_old_segments_are_deleted_by_size_with_their_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path, retention_bytes=4096)
    for first in range(0, 600, 20):
        stored(store, P0, run(first, first + 20))
    store.retain(0)
    held = store.copies[1, P0].extent
    assert 0 < held.start < held.end == 600
    assert [one.record.offset for one in everything(store)] == list(range(held.start, 600))
    store.close()
    assert len(everything(caught_up(open_store(tmp_path)))) == 600 - held.start


def test_latest_values_leave_out_deleted_keys(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, [made(0, "1", key="a"), made(1, "1", key="b"), made(2, "2", key="a"), made(3, "1", key="\u00e9")])
    deletion = made(4, key="b")
    deletion = type(deletion)(type(deletion.record)(4, 1004, b"b", None), 0)
    stored(store, P0, [deletion])
    assert values(latest(store, TOPIC, b"", 10, None).records) == ["2", "1"]
    assert values(latest(store, TOPIC, "\u00e9".encode(), 10, None).records) == ["1"]
    first = latest(store, TOPIC, b"", 1, None)
    assert (values(first.records), first.after) == (["2"], b"a")
    found = latest_of(store, TOPIC, b"b")
    assert found is not None
    assert found.record.value is None
    assert latest_of(store, TOPIC, b"nothing") is None
    store.close()


def test_a_page_ends_where_its_bytes_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qanat.app.edge.consuming.reading.PAGE_BYTES", 100)
    store = open_store(tmp_path)
    stored(store, P0, [made(n, "x" * 60) for n in range(5)])
    records, after = select(store, Query(TOPIC), 100)
    assert ([one.record.offset for one in records], after) == ([0, 1], (0, 1))
    assert len(everything(store)) == 5
    store.close()


def test_a_data_directory_is_for_one_process_and_one_group(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(DirectoryLockedError):
        open_store(tmp_path)
    store.close()
    with pytest.raises(InvalidSettingError, match=r"holds the topics prices of group g, not fx of no group"):
        open_store(tmp_path, topics=["fx"], group="")
    (tmp_path / "application.json").write_text("{")
    with pytest.raises(StorageError, match=r"cannot be read"):
        open_store(tmp_path)
    (tmp_path / "application.json").unlink()
    (tmp_path / "generations").mkdir(exist_ok=True)
    with pytest.raises(StorageError, match=r"is gone"):
        open_store(tmp_path)


def test_a_full_disk_is_waited_for_and_costs_nothing() -> None:
    disk = SimDisk(3)
    store = open_simulated(disk, VolatileIndexes())
    stored(store, P0, run(0, 20))
    disk.faults = DiskFaults(capacity_bytes=disk.content_bytes + 300)
    with pytest.raises(DiskFullError):
        stored(store, P0, run(20, 200))
    assert values(everything(store)) == [f"v{n}" for n in range(20)], "what was stored is served"
    disk.faults = DiskFaults()
    stored(store, P0, run(20, 200))
    assert values(everything(caught_up(store))) == [f"v{n}" for n in range(200)]
    again = caught_up(open_simulated(disk.crash("drop_all"), VolatileIndexes()))
    assert len(everything(again)) == 200


def test_a_failed_sync_is_final_and_what_was_stored_is_served() -> None:
    disk = SimDisk(4)
    store = open_simulated(disk, VolatileIndexes())
    stored(store, P0, run(0, 5))
    disk.fail_next("sync", ".log")
    with pytest.raises(StorageError):
        stored(store, P0, run(5, 9))
    with pytest.raises(StorageError, match="given up"):
        stored(store, P0, run(5, 9))
    assert values(everything(store)) == [f"v{n}" for n in range(5)]


def test_what_a_crash_left_of_a_generation_is_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 3))
    store.close()
    remains = tmp_path / "generations" / "7" / str(P0)
    remains.mkdir(parents=True)
    (remains / "00000000000000000000.log").write_bytes(b"x" * 100)
    again = caught_up(open_store(tmp_path))
    assert len(everything(again)) == 3
    assert not remains.exists()
    assert isinstance(again, RecordStore)
    again.close()


def test_another_topic_of_the_same_name_begins_with_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.store([Arrived(P0, run(0, 50), topic_id="old"), Arrived(P1, run(0, 5), topic_id="old")], 0)
    store.recreated(P0, "new")
    assert values(everything(caught_up(store))) == [f"v{n}" for n in range(5)], "of the other partition"
    store.store([Arrived(P0, run(0, 3, "n"), topic_id="new")], 0)
    store.close()

    again = caught_up(open_store(tmp_path))
    assert [again.topic_id(P0), again.topic_id(P1)] == ["new", "old"]
    assert len(everything(again)) == 8
    assert again.positions()[P0] == Place(3, 0)
    again.close()
