"""Whose data a directory holds, and which topic's a partition."""

from __future__ import annotations

import re

import pytest
from tests.log.directories import IDENTITY, PATH, TOPIC_ID, opened

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.directories.identity import (
    DirectoryIdentity,
    PartitionIdentity,
    claim_identity,
    read_partition_identity,
    write_partition_identity,
)
from qanat.model.errors import StorageError
from qanat.testing.simulation.disk import SimDisk
from qanat.wire.crc import crc32c

META = f"{PATH}/meta.properties"


def claimed(content: bytes | None = None) -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(PATH)
    if content is None:
        claim_identity(files, PATH, IDENTITY)
    else:
        write_volatile(files, META, content)
    return files


def test_a_new_directory_gets_its_identity_in_kafkas_words() -> None:
    content = read_whole(claimed(), META) or b""

    assert content.decode().splitlines() == [
        "version=1",
        "cluster.id=cluster",
        "node.id=1",
        "directory.id=directory",
        "qanat.format=1",
    ]


def test_an_old_directory_keeps_its_own_id() -> None:
    again = DirectoryIdentity("cluster", 1, "another")

    assert claim_identity(claimed(), PATH, again) == IDENTITY


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        (DirectoryIdentity("elsewhere", 1, ""), "belongs to cluster.id 'cluster', this broker has 'elsewhere'"),
        (DirectoryIdentity("cluster", 2, ""), "belongs to node.id '1', this broker has '2'"),
    ],
)
def test_somebody_elses_directory_is_refused_untouched(wanted: DirectoryIdentity, complaint: str) -> None:
    files = claimed()
    before = read_whole(files, META)

    with pytest.raises(StorageError, match=re.escape(f"{PATH} {complaint}")):
        opened(files, identity=wanted)
    assert read_whole(files, META) == before
    assert files.list(PATH) == ["meta.properties"]
    opened(files).close()  # The lock is free.


@pytest.mark.parametrize("layout", ["2", "17", "next"])
def test_a_later_layout_is_refused(layout: str) -> None:
    content = IDENTITY.encode().replace(b"qanat.format=1", f"qanat.format={layout}".encode())

    with pytest.raises(StorageError, match=f"has layout {layout}, this version of qanat knows up to 1: upgrade qanat"):
        opened(claimed(content))


def test_a_directory_that_kafka_made_is_taken() -> None:
    content = b"#\n#Thu Jan 01 00:00:00 UTC 1970\nnode.id=1\ndirectory.id=x\\=\nversion=1\ncluster.id=cluster\n"

    assert claim_identity(claimed(content), PATH, IDENTITY).directory_id == "x\\="


def test_the_identity_survives_a_crash_in_whole_or_is_given_again() -> None:
    disk = SimDisk(1)
    disk.make_directory(PATH)
    claim_identity(disk, PATH, IDENTITY)

    assert read_whole(disk.crash("drop_all"), META) == IDENTITY.encode()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (f"version: 0\ntopic_id: {TOPIC_ID}\n".encode(), TOPIC_ID),
        (b"", ""),
        (b"\xff\xff", ""),
        (b"version: 0\n", ""),
    ],
)
def test_a_topics_id_is_read_where_it_can_be(content: bytes, found: str) -> None:
    files = MemoryFiles()
    files.make_directory(PATH)
    assert read_partition_identity(files, PATH) == PartitionIdentity("")
    write_volatile(files, f"{PATH}/partition.metadata", content)

    assert read_partition_identity(files, PATH).topic_id == found


def test_a_topics_id_is_written_as_kafka_does_with_lines_more() -> None:
    files = MemoryFiles()
    files.make_directory(PATH)
    write_partition_identity(files, PATH, PartitionIdentity(TOPIC_ID, 17, 5))

    content = read_whole(files, f"{PATH}/partition.metadata")
    text = f"version: 0\ntopic_id: {TOPIC_ID}\nrevision: 17\ngeneration: 5\n".encode()
    assert content == text + b"checksum: %08x\n" % crc32c(text)
    assert read_partition_identity(files, PATH) == PartitionIdentity(TOPIC_ID, 17, 5)


def test_a_topics_id_with_a_flipped_bit_is_not_taken_for_another_topics() -> None:
    files = MemoryFiles()
    files.make_directory(PATH)
    write_partition_identity(files, PATH, PartitionIdentity(TOPIC_ID, 17))
    content = read_whole(files, f"{PATH}/partition.metadata") or b""

    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        write_volatile(files, f"{PATH}/partition.metadata", bytes(flipped))
        assert read_partition_identity(files, PATH) in (PartitionIdentity(TOPIC_ID, 17), PartitionIdentity(""))
