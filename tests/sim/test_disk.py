"""The simulated disk does to data what its faults say, and nothing to what was synced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qanat
from qanat.model.errors import DirectoryLockedError, DiskFullError, ReadOnlyError, StorageError
from qanat.testing.simulation.crash_image import SECTOR_BYTES, CrashMode
from qanat.testing.simulation.disk import SimDisk, SimFile
from qanat.testing.simulation.disk_faults import Act, DiskFaults, PowerLoss

MODES: tuple[CrashMode, ...] = ("keep_all", "drop_all", "random")


def disk_with(content: bytes, seed: int = 0) -> tuple[SimDisk, SimFile]:
    """A disk with one durable file, `/file`."""
    disk = SimDisk(seed)
    file = disk.open("/file", create=True)
    file.write([content], 0)
    file.sync()
    disk.sync_directory("/")
    return disk, file


def content(disk: SimDisk, path: str = "/file") -> bytes | None:
    return bytes(disk.open(path).read(0, 1 << 40)) if disk.exists(path) else None


def image(disk: SimDisk, folder: str = "/") -> dict[str, bytes]:
    """Everything on a disk, by path."""
    found: dict[str, bytes] = {}
    for name in disk.list(folder):
        path = folder.rstrip("/") + "/" + name
        try:
            found[path] = bytes(disk.open(path).read(0, 1 << 40))
        except StorageError:
            found |= {path + "/": b""} | image(disk, path)
    return found


def outcomes(disk: SimDisk, variants: int = 300) -> list[dict[str, bytes]]:
    """The different images that a power loss may leave."""
    distinct: list[dict[str, bytes]] = []
    for variant in range(variants):
        found = image(disk.crash("random", variant=variant))
        if found not in distinct:
            distinct.append(found)
    return distinct


def work(disk: SimDisk) -> None:
    """A little of everything, as a log would do it."""
    disk.make_directory("/data/topic-0")
    log = disk.open("/data/topic-0/0.log", create=True)
    disk.sync_directory("/data/topic-0")
    for number in range(10):
        log.write([b"%04d" % number * 300, b"end"], log.size())
        if number % 3 == 0:
            log.sync()
    copy = disk.open("/data/topic-0/0.log.swap", create=True)
    copy.write([log.view(5000)], 0)
    copy.sync()
    copy.rename("/data/topic-0/0.log")
    disk.sync_directory("/data/topic-0")
    checkpoint = disk.open("/data/checkpoint.tmp", create=True)
    checkpoint.write([b"5000"], 0)
    checkpoint.rename("/data/checkpoint")
    disk.rename("/data/topic-0", "/data/topic-0.deleted")
    disk.remove("/data/topic-0.deleted/0.log")
    disk.remove_directory("/data/topic-0.deleted")


def test_an_unsynced_write_is_lost_at_worst() -> None:
    disk, file = disk_with(b"synced")
    file.write([b" and not"], 6)

    assert content(disk) == b"synced and not"
    assert disk.durable_bytes("/file") == b"synced"
    assert content(disk.crash("drop_all")) == b"synced"


def test_a_killed_process_leaves_everything_but_nothing_more_durable() -> None:
    disk, file = disk_with(b"synced")
    file.write([b" and not"], 6)
    disk.open("/new", create=True)
    after_kill = disk.crash("keep_all")

    assert image(after_kill) == {"/file": b"synced and not", "/new": b""}
    assert image(after_kill.crash("drop_all")) == {"/file": b"synced"}
    after_kill.open("/file").sync()
    after_kill.sync_directory("/")
    assert image(after_kill.crash("drop_all")) == {"/file": b"synced and not", "/new": b""}


def test_what_a_crash_took_does_not_come_back_with_the_next_sync() -> None:
    disk, file = disk_with(b"synced")
    file.write([b" and not"], 6)
    disk.open("/new", create=True)
    after = disk.crash("drop_all")
    after.open("/file").sync()
    after.sync_directory("/")

    assert image(after) == image(after.crash("drop_all")) == {"/file": b"synced"}


def test_a_crash_leaves_the_old_disk_as_it_was() -> None:
    disk, file = disk_with(b"old")
    after = disk.crash("keep_all")
    after.open("/file").write([b"NEW"], 0)
    after.remove("/file")

    assert content(disk) == b"old"
    file.write([b"er"], 3)
    assert not after.exists("/file")


def test_a_random_crash_keeps_drops_tears_reorders_and_grows() -> None:
    disk, file = disk_with(b"")
    first, second = b"1" * 2 * SECTOR_BYTES, b"2" * 2 * SECTOR_BYTES
    file.write([first], 0)
    file.write([second], len(first))
    found = [content["/file"] for content in outcomes(disk)]

    assert b"" in found
    assert first + second in found
    assert first + second[:SECTOR_BYTES] in found, "torn"
    assert bytes(len(first)) + second in found, "reordered"
    assert bytes(SECTOR_BYTES) + first[SECTOR_BYTES:] in found, "scattered"
    assert bytes(len(first)) in found, "grown in size only"


def test_a_sector_is_old_or_new_and_contains_all_earlier_writes() -> None:
    disk, file = disk_with(b"")
    file.write([b"a" * 100], 0)
    file.write([b"b" * 100], 100)
    found = [content["/file"].rstrip(b"\0") for content in outcomes(disk)]

    assert sorted(set(found)) == [b"", b"a" * 100, b"a" * 100 + b"b" * 100]


def test_a_new_file_can_vanish_though_its_bytes_were_synced() -> None:
    disk = SimDisk()
    file = disk.open("/file", create=True)
    file.write([b"acked"], 0)
    file.sync()

    assert image(disk.crash("drop_all")) == {}
    assert {} in outcomes(disk)
    disk.sync_directory("/")
    assert outcomes(disk) == [{"/file": b"acked"}]


def test_a_name_can_survive_without_the_bytes() -> None:
    disk, _ = disk_with(b"old")
    new = disk.open("/file.tmp", create=True)
    new.write([b"new"], 0)
    new.rename("/file")
    found = outcomes(disk)

    assert {"/file": b""} in found, "renamed over before it was synced"
    assert {"/file": b"new"} in found
    assert {"/file": b"old"} in found, "neither is the rename durable"


def test_a_rename_is_undone_as_a_whole() -> None:
    disk, _ = disk_with(b"old")
    new = disk.open("/file.tmp", create=True)
    new.write([b"new"], 0)
    new.sync()
    disk.sync_directory("/")
    new.rename("/file")

    assert image(disk.crash("drop_all")) == {"/file": b"old", "/file.tmp": b"new"}
    assert all(len(found) == 2 or found == {"/file": b"new"} for found in outcomes(disk))


def test_a_removed_file_can_return_with_its_durable_bytes() -> None:
    disk, file = disk_with(b"durable")
    file.write([b" volatile"], 7)
    disk.remove("/file")

    assert image(disk) == {}
    assert image(disk.crash("drop_all")) == {"/file": b"durable"}
    disk.sync_directory("/")
    assert outcomes(disk) == [{}]


def test_creating_over_a_file_can_leave_the_old_one_none_or_the_new_one() -> None:
    disk, _ = disk_with(b"old")
    disk.open("/file", create=True)
    found = outcomes(disk)

    assert {"/file": b"old"} in found
    assert {} in found
    assert {"/file": b""} in found


def test_folders_are_durable_once_made_but_not_gone_once_removed() -> None:
    disk = SimDisk()
    disk.make_directory("/a/b")
    assert image(disk.crash("drop_all")) == {"/a/": b"", "/a/b/": b""}
    disk.remove_directory("/a/b")
    assert image(disk.crash("drop_all")) == {"/a/": b"", "/a/b/": b""}


def test_a_move_between_folders_is_one_change() -> None:
    disk, file = disk_with(b"x")
    disk.make_directory("/other")
    file.rename("/other/file")
    found = outcomes(disk)

    assert sorted(map(sorted, found)) == [["/file", "/other/"], ["/other/", "/other/file"]]
    disk.sync_directory("/other")
    assert sorted(image(disk.crash("drop_all"))) == ["/other/", "/other/file"]


def test_a_move_takes_earlier_changes_of_both_folders_with_it() -> None:
    disk = SimDisk()
    disk.make_directory("/a")
    disk.make_directory("/b")
    disk.open("/b/file", create=True)
    new = disk.open("/a/file", create=True)
    new.write([b"new"], 0)
    new.sync()
    new.rename("/b/file")
    disk.sync_directory("/a")
    disk.sync_directory("/b")

    assert content(disk.crash("drop_all"), "/b/file") == b"new"


def test_syncing_one_folder_says_nothing_about_another() -> None:
    disk = SimDisk()
    disk.make_directory("/a")
    disk.make_directory("/b")
    disk.open("/a/file", create=True)
    disk.open("/b/file", create=True)
    disk.sync_directory("/a")

    assert sorted(image(disk.crash("drop_all"))) == ["/a/", "/a/file", "/b/"]


@pytest.mark.parametrize(("keeps_name_order", "can_be_reordered"), [(True, False), (False, True)])
def test_names_of_one_folder_survive_in_order_unless_told_otherwise(
    keeps_name_order: bool, can_be_reordered: bool
) -> None:
    disk = SimDisk(faults=DiskFaults(keeps_name_order=keeps_name_order))
    disk.open("/first", create=True)
    disk.open("/second", create=True)

    assert ({"/second": b""} in outcomes(disk)) is can_be_reordered


def test_power_goes_out_before_the_operation_and_stays_out() -> None:
    disk, file = disk_with(b"before")
    disk.faults = DiskFaults(power_loss_at_operation=disk.operations + 2)
    file.write([b" kept"], 6)
    with pytest.raises(PowerLoss, match="power went out at operation 6, seed 0"):
        file.sync()

    def acts() -> list[Callable[[], object]]:
        return [
            lambda: file.write([b"x"], 11),
            file.sync,
            lambda: file.rename("/other"),
            lambda: disk.remove("/file"),
            lambda: disk.open("/new", create=True),
            lambda: disk.make_directory("/new"),
            lambda: disk.sync_directory("/"),
        ]

    for act in acts():
        with pytest.raises(PowerLoss):
            act()
    assert disk.operations == 6
    assert image(disk) == {"/file": b"before kept"}
    assert content(disk.crash("drop_all")) == b"before"


def test_power_loss_is_no_exception_that_product_code_catches() -> None:
    assert not issubclass(PowerLoss, Exception)


def test_power_can_go_out_in_mid_write() -> None:
    lengths = []
    for seed in range(20):
        disk, file = disk_with(b"", seed)
        disk.faults = DiskFaults(power_loss_at_operation=disk.operations + 1, tears_write=True)
        with pytest.raises(PowerLoss):
            file.write([b"0123456789"], 0)
        found = content(disk.crash("keep_all"))
        assert found is not None
        assert b"0123456789".startswith(found)
        lengths.append(len(found))

    assert max(lengths) < 10
    assert len(set(lengths)) > 3


def test_every_cut_of_a_workload_can_be_enumerated() -> None:
    whole = SimDisk()
    work(whole)
    assert whole.operations > 25
    images = []
    for cut in range(1, whole.operations + 1):
        disk = SimDisk(faults=DiskFaults(power_loss_at_operation=cut))
        with pytest.raises(PowerLoss):
            work(disk)
        assert disk.operations == cut
        assert list(disk.trace) == list(whole.trace)[:cut]
        images.append(image(disk.crash("keep_all")))

    assert images[0] == {}
    for line, (before, after) in zip(whole.trace, pairwise(images), strict=False):
        assert (before == after) == ("sync" in line), line


def test_a_failed_sync_drops_the_bytes_and_the_next_one_lies() -> None:
    disk, file = disk_with(b"safe")
    file.write([b"LOST"], 4)
    disk.fail_next("sync")
    with pytest.raises(StorageError, match="cannot sync /file: input/output error"):
        file.sync()
    assert content(disk) == b"safeLOST", "the process goes on seeing its bytes"
    assert content(disk.crash("drop_all")) == b"safe"
    file.sync()
    assert content(disk.crash("drop_all")) == b"safe\0\0\0\0"
    file.write([b"more"], 8)
    file.sync()

    assert content(disk) == b"safeLOSTmore"
    for mode in ("drop_all", "random"):
        assert content(disk.crash(mode)) == b"safe\0\0\0\0more"


def test_operations_fail_by_number_and_by_name() -> None:
    disk, file = disk_with(b"x")
    disk.make_directory("/folder")
    disk.faults = DiskFaults(fail_at_operations=(disk.operations + 2,))
    disk.remove("/missing")
    disk.sync_directory("/")
    with pytest.raises(StorageError):
        disk.open("/new", create=True)
    failures: list[tuple[Act, Callable[[], object]]] = [
        ("write", lambda: file.write([b"y"], 1)),
        ("read", lambda: file.read(0, 1)),
        ("sync_directory", lambda: disk.sync_directory("/")),
        ("rename", lambda: file.rename("/other")),
        ("remove", lambda: disk.remove("/file")),
        ("mkdir", lambda: disk.make_directory("/more")),
        ("rmdir", lambda: disk.remove_directory("/folder")),
        ("create", lambda: disk.open("/new", create=True)),
    ]
    for act, do in failures:
        disk.fail_next(act, "nothing of that name")
        disk.fail_next(act)
        with pytest.raises(StorageError, match="input/output error"):
            do()

    assert image(disk) == {"/file": b"x", "/folder/": b""}
    assert disk.open("/new", create=True).size() == 0, "each failure strikes once"


def test_a_failed_sync_of_a_folder_leaves_its_names_volatile() -> None:
    disk = SimDisk()
    disk.open("/file", create=True)
    disk.fail_next("sync_directory")
    with pytest.raises(StorageError):
        disk.sync_directory("/")

    assert image(disk.crash("drop_all")) == {}


def test_a_failed_write_may_have_been_done_in_part() -> None:
    found = []
    for seed in range(20):
        disk, file = disk_with(b"", seed)
        disk.faults = DiskFaults(fail_at_operations=(disk.operations + 1,), tears_write=True)
        with pytest.raises(StorageError):
            file.write([b"0123456789"], 0)
        found.append(file.size())

    assert max(found) < 10
    assert len(set(found)) > 3


def test_a_full_disk_takes_what_fits_and_room_comes_back() -> None:
    disk, _ = disk_with(b"x" * 60)
    disk.faults = DiskFaults(capacity_bytes=100)
    other = disk.open("/other", create=True)
    other.write([b"y" * 30], 0)
    with pytest.raises(DiskFullError):
        other.write([b"z" * 20], 30)
    assert content(disk, "/other") == b"y" * 30 + b"z" * 10
    other.write([b"Z" * 10], 30)
    disk.remove("/file")
    other.write([b"z" * 60], 40)

    assert other.size() == 100


def test_a_read_only_disk_refuses_changes_and_can_be_read() -> None:
    disk, file = disk_with(b"x")
    disk.faults = replace(disk.faults, is_read_only=True)
    for act in (
        lambda: file.write([b"y"], 1),
        file.sync,
        lambda: disk.remove("/file"),
        lambda: disk.sync_directory("/"),
    ):
        with pytest.raises(ReadOnlyError):
            act()
    disk.faults = DiskFaults()
    file.write([b"y"], 1)

    assert content(disk) == b"xy"


def test_rot_flips_one_bit_for_later_readers_and_on_the_platter() -> None:
    disk, file = disk_with(bytes(100))
    view = file.view(100)
    assert disk.rot("/file", 8 * 50 + 3) == 403

    assert bytes(view) == bytes(100), "a view taken before stays as it was"
    assert bytes(file.view(100)) == bytes(50) + b"\x08" + bytes(49)
    for mode in MODES:
        assert content(disk.crash(mode)) == bytes(50) + b"\x08" + bytes(49)


def test_rot_is_seeded() -> None:
    bits = [disk_with(bytes(1000), seed)[0].rot("/file") for seed in (1, 1, 2)]

    assert bits[0] == bits[1] != bits[2]


def test_rewriting_what_a_view_has_shown_is_a_bug() -> None:
    disk, file = disk_with(b"0123456789")
    file.view(5)
    file.write([b"x"], 5)
    with pytest.raises(AssertionError, match="views have shown the first 5 bytes"):
        file.write([b"x"], 4)
    disk.crash("keep_all").open("/file").write([b"x"], 4)


def test_locks_are_gone_after_a_crash() -> None:
    disk = SimDisk()
    disk.lock("/.lock")
    with pytest.raises(DirectoryLockedError):
        disk.lock("/.lock")
    disk.crash("keep_all").lock("/.lock")


def test_reads_can_be_cold() -> None:
    disk, file = disk_with(b"x")
    disk.faults = DiskFaults(cold_chance=0.5)

    assert {file.is_resident(0, 1) for _ in range(50)} == {True, False}


def test_reports_name_seed_and_operations() -> None:
    disk, file = disk_with(b"abc", seed=42)

    assert list(disk.trace) == [
        "1 create /file",
        "2 write /file 3 bytes at 0, crc 352441c2",
        "3 sync /file",
        "4 sync_directory /",
    ]
    assert repr(disk) == "<SimDisk seed=42 operations=4, last: 4 sync_directory />"
    file.write([b"d"], 3)
    assert repr(file) == "<SimFile /file 4 bytes, 1 unsynced writes>"


def history(seed: int) -> str:
    """Everything that a seed decides, as text."""
    disk = SimDisk(seed)
    work(disk)
    images = [image(disk.crash("random", variant=variant)) for variant in range(20)]
    for cut in range(1, disk.operations, 3):
        partial = SimDisk(seed, DiskFaults(power_loss_at_operation=cut, tears_write=True, keeps_name_order=False))
        with pytest.raises(PowerLoss):
            work(partial)
        images.append(image(partial.crash("random").crash("random")))
    return f"{disk.trace_hash()} {images}"


def test_one_seed_is_one_history() -> None:
    assert history(7) == history(7)
    assert history(7) != history(8)


def test_the_data_is_part_of_the_trace_hash() -> None:
    assert disk_with(b"abc")[0].trace_hash() != disk_with(b"abd")[0].trace_hash()


def test_the_hash_seed_of_the_interpreter_changes_nothing() -> None:
    script = "import runpy, sys; print(runpy.run_path(sys.argv[1])['history'](7))"
    histories = [
        subprocess.run(
            [sys.executable, "-c", script, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(qanat.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert histories[0] == histories[1] == history(7) + "\n"


Step = tuple[str, int, bytes]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "sync", "roll", "rename", "remove", "sync_directory"]),
        st.integers(0, 3),
        st.binary(min_size=1, max_size=1500),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1 << 32), keeps_name_order=st.booleans())
def test_what_was_synced_survives_every_crash(steps: list[Step], seed: int, keeps_name_order: bool) -> None:
    """Against a model that only knows: bytes synced under a durable name, and not touched since, are there."""
    disk = SimDisk(seed, DiskFaults(keeps_name_order=keeps_name_order))
    files: dict[str, SimFile] = {}
    synced: dict[str, bytes] = {}
    promised: dict[str, bytes] = {}
    for act, number, data in steps:
        path = f"/{number}"
        if act == "roll" or path not in files:
            files[path] = disk.open(path, create=True)
            synced[path] = b""
            promised.pop(path, None)
        elif act == "write":
            files[path].write([data], files[path].size())
        elif act == "sync":
            files[path].sync()
            synced[path] = bytes(files[path].read(0, 1 << 40))
            if path in promised:
                promised[path] = synced[path]
        elif act == "rename":
            other = f"/{(number + 1) % 4}"
            files[path].rename(other)
            files[other], synced[other] = files.pop(path), synced.pop(path)
            promised.pop(path, None)
            promised.pop(other, None)
        elif act == "remove":
            disk.remove(path)
            del files[path], synced[path]
            promised.pop(path, None)
        else:
            disk.sync_directory("/")
            promised = dict(synced)
    for mode in MODES:
        after = disk.crash(mode)
        for path, expected in promised.items():
            found = content(after, path)
            assert found is not None
            assert found.startswith(expected)
    assert {path: content(disk.crash("keep_all"), path) for path in files} == {
        path: bytes(file.read(0, 1 << 40)) for path, file in files.items()
    }


def test_bytes_that_a_failed_sync_dropped_look_written_until_the_cache_is_let_go() -> None:
    disk = SimDisk()
    file = disk.open("/a", create=True)
    file.write([b"kept"], 0)
    file.sync()
    file.write([b"lost"], 4)
    disk.fail_next("sync")
    with pytest.raises(StorageError):
        file.sync()

    again = disk.crash("keep_all").open("/a")
    assert again.read(0, 8) == b"keptlost"
    again.sync()
    again.drop_cache()
    assert again.read(0, 8) == b"kept\0\0\0\0"
