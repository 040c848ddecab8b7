"""The catalogue in SQLite: what was saved comes back whole, or not at all."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.sqlite_catalogue import SqliteCatalogue
from qanat.log.directories.catalogue import Catalogue, PartitionRow, SegmentRow
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.sidecar import Sidecar, TableChecksums
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition

LARGEST = 2**63 - 1


def sidecar(size: int, damage: tuple[Damage, ...] = ()) -> Sidecar:
    return Sidecar(
        size=size,
        next_offset=LARGEST,
        max_timestamp=-1,
        max_timestamp_offset=12,
        checksums=TableChecksums(offset_index=2**32 - 1, time_index=0, aborted_index=7),
        damage=damage,
    )


def rows(count: int = 3) -> list[PartitionRow]:
    hurt = Damage(1, 2, 3, 4, "checksum mismatch: 'größer'")
    return [
        PartitionRow(
            TopicPartition(topic, number), f"id-{topic}", 1, 2, LARGEST, "0\n1\n0 0\n", number, since_ms,
            (SegmentRow(0, sidecar(1, (hurt,)), (hurt, hurt)), SegmentRow(LARGEST - 1, sidecar(0))),
        )
        for topic, since_ms in (("a", None), ("a-b", -5), ("b", LARGEST))
        for number in range(count)
    ]  # fmt: skip


@pytest.fixture(params=["sqlite", "memory"])
def catalogue(request: pytest.FixtureRequest, tmp_path: Path) -> Catalogue:
    return SqliteCatalogue(str(tmp_path / "catalogue.db")) if request.param == "sqlite" else MemoryCatalogue()


def test_rows_come_back_as_they_were_saved(catalogue: Catalogue) -> None:
    catalogue.save("generation", rows())

    assert list(catalogue.load("generation")) == rows()
    assert list(catalogue.load("generation")) == rows()


def test_another_generation_has_no_rows(catalogue: Catalogue) -> None:
    assert list(catalogue.load("")) == []
    catalogue.save("one", rows())
    assert list(catalogue.load("")) == []
    assert list(catalogue.load("two")) == []
    catalogue.save("two", [])
    assert list(catalogue.load("one")) == []
    assert list(catalogue.load("two")) == []


def test_many_partitions_are_no_burden(tmp_path: Path) -> None:
    catalogue = SqliteCatalogue(str(tmp_path / "catalogue.db"))
    catalogue.save("generation", iter(rows(1000)))

    assert len(list(catalogue.load("generation"))) == 3000


def test_no_flipped_bit_is_believed(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.db"
    catalogue = SqliteCatalogue(str(file))
    catalogue.save("generation", rows())
    content = file.read_bytes()
    for bit in random.Random(1).sample(range(8 * len(content)), 300):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)

        assert list(catalogue.load("generation")) in ([], rows()), f"bit {bit}"


@pytest.mark.parametrize("length", [0, 1, 15, 16, 100, 1024, 4096, 5000, 8192])
def test_no_torn_file_is_believed(tmp_path: Path, length: int) -> None:
    file = tmp_path / "catalogue.db"
    catalogue = SqliteCatalogue(str(file))
    catalogue.save("generation", rows())
    os.truncate(file, min(length, file.stat().st_size - 1))

    assert list(catalogue.load("generation")) == []


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE segments",
        "DROP TABLE generation",
        "UPDATE partitions SET high_watermark = 99",
        "UPDATE partitions SET high_watermark = 'many'",
        "UPDATE segments SET sidecar = '{'",
        "UPDATE segments SET sidecar = '{}'",
        "UPDATE segments SET damage = x'ff'",
        "DELETE FROM partitions WHERE topic = 'b'",
        "INSERT INTO generation VALUES ('other', 0)",
        "ALTER TABLE partitions ADD COLUMN later TEXT",
    ],
)
def test_what_somebody_changed_by_hand_is_not_believed(tmp_path: Path, change: str) -> None:
    file = tmp_path / "catalogue.db"
    catalogue = SqliteCatalogue(str(file))
    catalogue.save("generation", rows())
    database = sqlite3.connect(file)
    with database:
        database.execute(change)
    database.close()

    assert list(catalogue.load("generation")) == []


def test_what_a_killed_save_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.db"
    catalogue = SqliteCatalogue(str(file))
    catalogue.save("one", rows())
    (tmp_path / "catalogue.db.tmp").write_bytes(b"half")
    (tmp_path / "catalogue.db.tmp-journal").write_bytes(b"half")

    assert list(catalogue.load("one")) == rows()
    catalogue.save("two", rows(1))
    assert list(catalogue.load("two")) == rows(1)


def test_a_save_is_durable_before_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    fsync, move = os.fsync, os.replace

    def note_sync(fd: int) -> None:
        acts.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def note_move(old: str, new: str) -> None:
        acts.append("replace " + os.path.basename(new))
        move(old, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_move)
    SqliteCatalogue(str(tmp_path / "catalogue.db")).save("generation", rows())

    assert acts == ["sync catalogue.db.tmp", "replace catalogue.db", f"sync {tmp_path.name}"]


def test_where_nothing_can_be_written_the_fault_says_where(tmp_path: Path) -> None:
    catalogue = SqliteCatalogue(str(tmp_path / "missing" / "catalogue.db"))

    with pytest.raises(StorageError, match=r"cannot write the catalogue .*missing/catalogue\.db"):
        catalogue.save("generation", rows())


def test_a_failed_save_leaves_the_old_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = SqliteCatalogue(str(tmp_path / "catalogue.db"))
    catalogue.save("one", rows())

    def refuse(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="Input/output error"):
        catalogue.save("two", [])
    assert list(catalogue.load("one")) == rows()
