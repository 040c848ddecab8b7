"""A lake without Spark: commits, files, recovery after a crash."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from qanat.model.ids import TopicPartition
from qanat.spark.lake import lake as lakes
from qanat.spark.lake.commits import LakeFile, TopicState
from qanat.spark.lake.files import Folder, FolderError
from qanat.spark.lake.lake import Lake, LakeError
from qanat.spark.lake.merging import MERGED_FROM, merge_small
from qanat.spark.lake.parquet import OPEN_FILES, SCHEMA, write_rows

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000
"""2026-01-01T00:00."""


def rows(first: int, times_ms: list[int], partition: int = 0, topic: str = "orders") -> pa.RecordBatch:
    """Rows as the source gives them, with offsets from `first` on."""
    count = len(times_ms)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%d" % number if number % 2 else None for number in range(count)], pa.binary()),
            "value": pa.array([b"v%d" % (first + number) for number in range(count)], pa.binary()),
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([time * 1000 for time in times_ms], pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
            "headers": pa.array([None] * count, SCHEMA.field("headers").type),
        }
    )


def put(lake: Lake, batch: pa.RecordBatch) -> list[LakeFile]:
    files = list(write_rows([batch], lake.folder, lake.contents.offsets))
    lake.commit(lake.next_commit("batch", {}, {}, files))
    return files


def offsets(lake: Lake) -> list[int]:
    """The offsets in the files that count, file by file in the order of their names."""
    return [
        offset
        for path in sorted(lake.contents.files)
        for offset in pq.ParquetFile(lake.folder.address(path).removeprefix("file://")).read()["offset"].to_pylist()
    ]


def test_files_lie_by_topic_date_and_hour_and_anybody_can_read_them(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path / "lake"), "cluster")
    put(lake, rows(0, [START_MS, START_MS + 1, START_MS + HOUR_MS]))

    assert sorted(lake.contents.files) == [
        "topic=orders/date=2026-01-01/hour=00/00000-00000000000000000000.parquet",
        "topic=orders/date=2026-01-01/hour=01/00000-00000000000000000002.parquet",
    ]
    everything = pq.read_table(tmp_path / "lake").sort_by("offset")
    assert everything["value"].to_pylist() == [b"v0", b"v1", b"v2"]
    assert everything["timestamp"].cast(pa.int64()).to_pylist() == [START_MS, START_MS + 1, START_MS + HOUR_MS]
    assert set(everything["topic"].to_pylist()) == {"orders"}


def test_rows_before_the_position_are_left_out(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    put(lake, rows(0, [START_MS] * 5))
    put(lake, rows(3, [START_MS] * 5))

    assert offsets(lake) == list(range(8))
    assert lake.contents.offsets == {TopicPartition("orders", 0): 8}


def test_a_task_that_is_repeated_writes_the_same_files(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    first = list(write_rows([rows(0, [START_MS, START_MS + HOUR_MS])], folder, {}))

    assert list(write_rows([rows(0, [START_MS, START_MS + HOUR_MS])], folder, {})) == first
    assert len(folder.names()) == 2


def test_times_that_jump_about_cost_files_and_lose_nothing(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    hours = OPEN_FILES + 5
    times = [START_MS + number % hours * HOUR_MS for number in range(3 * hours)]
    files = list(
        write_rows((rows(first, times[first : first + 7]) for first in range(0, len(times), 7)), lake.folder, {})
    )
    lake.commit(lake.next_commit("batch", {}, {}, files))

    assert sorted(offsets(lake)) == list(range(len(times)))
    assert sum(one.rows for one in files) == len(times)
    for one in files:
        assert one.latest - one.earliest < HOUR_MS


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> object:
        yield rows(0, [START_MS])
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        list(write_rows(failing(), Folder(str(tmp_path)), {}))  # type: ignore[arg-type]
    assert Folder(str(tmp_path)).names() == []


def test_files_that_no_commit_names_are_deleted_by_the_next_writer(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    lake.begin_writing()
    put(lake, rows(0, [START_MS]))
    list(write_rows([rows(1, [START_MS])], lake.folder, {}))

    again = Lake.open_or_create(str(tmp_path), "cluster")
    again.begin_writing()

    assert again.contents.files == lake.contents.files
    assert [name for name in again.folder.names() if name.startswith("topic=")] == list(lake.contents.files)
    again.end_writing()
    assert not [name for name in again.folder.names() if "unfinished" in name]


def test_of_two_writers_one_is_refused(tmp_path: Path) -> None:
    one, other = Lake.open_or_create(str(tmp_path), "cluster"), Lake.open_or_create(str(tmp_path), "cluster")
    put(one, rows(0, [START_MS]))

    with pytest.raises(LakeError, match="another archive writes into"):
        put(other, rows(0, [START_MS]))


def test_a_folder_that_is_not_a_lake_or_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="is not a lake: it is empty"):
        Lake.open_existing(str(tmp_path / "nowhere"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match=r"is not a lake: it has no _qanat/lake\.json"):
        Lake.open_existing(str(tmp_path))
    with pytest.raises(LakeError, match="is not empty and not a lake"):
        Lake.open_or_create(str(tmp_path), "cluster")
    with pytest.raises(FolderError, match="is a file"):
        Lake.open_or_create(str(tmp_path / "notes.txt"), "cluster")
    Lake.open_or_create(str(tmp_path / "lake"), "paris")
    with pytest.raises(LakeError, match="is the lake of cluster paris, and this is cluster oslo"):
        Lake.open_or_create(str(tmp_path / "lake"), "oslo")
    (tmp_path / "lake/_qanat/lake.json").write_text('{"id": "x", "cluster": "paris", "created_at": 0, "version": 9}')
    with pytest.raises(LakeError, match="a lake of format qanat-archive 9"):
        Lake.open_existing(str(tmp_path / "lake"))


def test_a_commit_that_is_missing_is_noticed(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    for number in range(3):
        put(lake, rows(number, [START_MS]))
    (tmp_path / "_qanat/commits/0000000001.json").unlink()

    with pytest.raises(LakeError, match="is damaged: commit 1 is not in"):
        Lake.open_existing(str(tmp_path))


def test_sums_save_reading_and_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakes, "SUM_EVERY", 4)
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    for number in range(18):
        put(lake, rows(number, [START_MS]))
    for path in (tmp_path / "_qanat/commits").glob("*.json"):
        if int(path.stem) < 16:
            path.unlink()

    assert Lake.open_existing(str(tmp_path)).contents == lake.contents
    assert len(list((tmp_path / "_qanat/sums").iterdir())) == 2


def test_the_start_of_a_partition_is_stored_until_it_has_records(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    lake.commit(lake.next_commit("state", start={"orders": {"0": 5, "1": 7}}))
    put(lake, rows(5, [START_MS] * 2))

    assert Lake.open_existing(str(tmp_path)).contents.offsets == {
        TopicPartition("orders", 0): 7,
        TopicPartition("orders", 1): 7,
    }


def test_small_files_become_one(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    for number in range(MERGED_FROM):
        merge_small(lake, put(lake, rows(10 * number, [START_MS] * 10)))
        put(lake, rows(number, [START_MS], partition=1))

    assert offsets(lake)[: 10 * MERGED_FROM] == list(range(10 * MERGED_FROM))
    of_first = [one for one in lake.contents.files.values() if one.partition == 0]
    assert [(one.first, one.last, one.rows) for one in of_first] == [(0, 10 * MERGED_FROM - 1, 10 * MERGED_FROM)]
    on_disk = [name for name in lake.folder.names() if name.startswith("topic=")]
    assert on_disk == sorted(lake.contents.files)
    assert Lake.open_existing(str(tmp_path)).contents == lake.contents


def test_the_state_of_a_moment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.open_or_create(str(tmp_path), "cluster")
    for moment in (100, 200, 300, 400):
        monkeypatch.setattr(lakes, "_now_ms", lambda moment=moment: moment)
        lake.commit(lake.next_commit("state", {"orders": TopicState("id", moment // 100)}, {}))

    def partitions(moment: int | None) -> int:
        found = lake.state_at(moment)
        assert found is not None
        return found.topics["orders"].partitions

    assert [partitions(moment) for moment in (50, 100, 299, 300, 999, None)] == [1, 1, 2, 3, 4, 4]
    assert Lake.open_or_create(str(tmp_path / "empty"), "cluster").state_at(5) is None
