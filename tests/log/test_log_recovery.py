"""Opening what a process left behind: every memory aid missing, empty, torn or foreign, and leftovers of every job.

Torn tails and crash images have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.log.batches import (
    FOLDER,
    LIMIT,
    NOW,
    PARTITION,
    Writer,
    append,
    batch,
    batches_in,
    compact,
    contents,
    disk_with,
    end_transaction,
    fill,
    flush,
    image,
    new_log,
    pairs_of,
    reopened,
    replicate,
    stored,
)
from tests.log.directories import WatchedFiles

from qanat.log.atomic_files import read_whole
from qanat.log.leader_epochs import LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments import file_names
from qanat.log.segments.sidecar import decode_sidecar, encode_sidecar
from qanat.log.timestamp_lookup import find_timestamp
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptLogError, UnreadableSegmentError
from qanat.testing.simulation.disk import SimDisk

SIZE = len(batch(2))


def busy_log() -> PartitionLog:
    """Four sealed segments and an open one: plain, idempotent and transactional batches of three leaders."""
    log = new_log(segment_bytes=1200, index_interval_bytes=200)
    for number in range(30):
        epoch = number // 11
        append(log, batch(2, timestamps=NOW + 7 * number), epoch)
        append(log, batch(1, writer=Writer(7, 0, number), is_transactional=True, timestamps=NOW + number), epoch)
        if number % 4 == 3:
            end_transaction(log, 7, is_commit=number % 8 == 3, now_ms=NOW + number)
    append(log, batch(1, writer=Writer(8, 2, 0)), 2)
    replicate(log)
    assert len(log.segments) > 4
    return log


def answers(log: PartitionLog) -> dict[str, object]:
    """Whatever anybody may ask of a log."""
    ends = range(log.log_start_offset, log.end_offset)
    return {
        "extent": (log.log_start_offset, log.end_offset, log.size),
        "segments": [(one.base_offset, one.next_offset, one.max_timestamp) for one in log.segments],
        "batches": [content for _, content in stored(log)],
        "positions": [[next(batches_in(view))[0].base_offset for view in log.read(at, 1).views()] for at in ends],
        "times": [find_timestamp(log, NOW + age, LIMIT) for age in range(-1, 220, 5)],
        "aborted": log.aborted_transactions(0, log.end_offset),
        "epochs": log.epochs,
        "producers": log.producers.states,
        "stable": log.last_stable_offset,
        "damage": log.damage,
    }


def opened_from(log: PartitionLog, folder: dict[str, bytes]) -> PartitionLog:
    return reopened(log, disk_with(folder))


def companions(folder: dict[str, bytes], suffix: str) -> list[str]:
    found = [name for name in folder if name.endswith(suffix)]
    assert found
    return found


def test_a_log_opens_as_it_was_closed_and_again_after_that() -> None:
    log = busy_log()
    opened = opened_from(log, image(log.files))
    assert answers(opened) == answers(log)
    assert answers(reopened(opened)) == answers(log)


KINDS = [
    file_names.OFFSET_INDEX,
    file_names.TIME_INDEX,
    file_names.ABORTED_INDEX,
    file_names.SIDECAR,
    file_names.SNAPSHOT,
    file_names.LEADER_EPOCHS,
]
HARMS: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "missing": lambda _, __: None,
    "empty": lambda _, __: b"",
    "torn": lambda content, _: content[: len(content) // 2],
    "short of a byte": lambda content, _: content[:-1],
    "longer": lambda content, _: content + b"\0" * 8,
    "zeros": lambda content, _: b"\0" * len(content),
    "rotten": lambda content, _: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
    "from another segment": lambda _, other: other,
}


CANNOT_BE_TOLD = {
    ("rotten", file_names.LEADER_EPOCHS),  # Kafka's text has no checksum: another digit is another number.
    ("from another segment", file_names.LEADER_EPOCHS),
    ("from another segment", file_names.SIDECAR),
    ("from another segment", file_names.SNAPSHOT),
}
"""Sound files that say something else; a person or a program must have put them there."""


@pytest.mark.parametrize(
    ("kind", "harm"), [(kind, harm) for kind in KINDS for harm in HARMS if (harm, kind) not in CANNOT_BE_TOLD]
)
def test_c62_every_memory_aid_can_be_lost_and_the_log_answers_the_same(kind: str, harm: str) -> None:
    log = busy_log()
    folder = image(log.files)
    every = companions(folder, kind)
    for name, other in zip(every, [*every[1:], every[0]], strict=True):
        changed = HARMS[harm](folder[name], image(log.files)[other]) if folder[name] else folder[name]
        if changed is None:
            del folder[name]
        else:
            folder[name] = changed
    opened = opened_from(log, folder)
    assert answers(opened) == answers(log)
    assert answers(reopened(opened)) == answers(log)


@pytest.mark.parametrize(
    "kind", [file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.ABORTED_INDEX, file_names.SIDECAR]
)
def test_one_lost_file_in_the_middle_does_not_harm_either(kind: str) -> None:
    log = busy_log()
    for name in companions(image(log.files), kind):
        folder = image(log.files)
        del folder[name]
        assert answers(opened_from(log, folder)) == answers(log), name


def test_an_aborted_index_where_there_should_be_none_is_not_believed() -> None:
    log = new_log(segment_bytes=4 * SIZE)
    fill(log, 12, 2)
    flush(log)
    foreign = image(busy_log().files)
    content = foreign[companions(foreign, file_names.ABORTED_INDEX)[0]]
    folder = {**image(log.files), f"{0:020d}{file_names.ABORTED_INDEX}": content}
    opened = opened_from(log, folder)
    assert opened.aborted_transactions(0, 100) == []
    opened.read(0, 1000)
    assert opened.segments[0].tables.check(), "rebuilt once, not at every look"


def test_a_lost_table_is_written_anew_on_first_use() -> None:
    log = busy_log()
    folder = image(log.files)
    for name in companions(folder, file_names.OFFSET_INDEX):
        del folder[name]
    opened = opened_from(log, folder)
    stored(opened)
    assert image(opened.files) == image(log.files)


@pytest.mark.parametrize(
    "leftover",
    [
        f"{0:020d}-{5:020d}{file_names.CLEANED}",
        f"{0:020d}{file_names.LOG}{file_names.TRUNCATED}",
        f"{0:020d}{file_names.SIDECAR}.tmp",
        f"{file_names.LEADER_EPOCHS}.tmp",
        f"{999:020d}{file_names.OFFSET_INDEX}",
        f"{999:020d}{file_names.TIME_INDEX}",
        f"{999:020d}{file_names.ABORTED_INDEX}",
        f"{999:020d}{file_names.SIDECAR}",
        f"{999:020d}{file_names.SNAPSHOT}",
    ],
)
def test_files_that_were_being_written_and_companions_of_nothing_are_removed(leftover: str) -> None:
    log = busy_log()
    opened = opened_from(log, {**image(log.files), leftover: b"half a file"})
    assert leftover not in opened.files.list(FOLDER)
    assert answers(opened) == answers(log)


def test_files_that_are_not_ours_are_left_alone() -> None:
    log = busy_log()
    foreign = {
        file_names.PARTITION_METADATA: b"version: 0\n",
        "README": b"hands off",
        "12.log": b"not a segment's name",
    }
    opened = opened_from(log, {**image(log.files), **foreign})
    assert foreign.items() <= image(opened.files).items()
    assert answers(opened) == answers(log)


def test_c63_a_swap_file_stands_for_its_segments_whatever_is_left_of_them() -> None:
    log = new_log(segment_bytes=100 * SIZE, cleanup_policy="compact")
    for number in range(9):
        append(log, batch([(b"a", b"%d" % number), (b"b", b"-")], writer=Writer(7, 0, 2 * number)))
        if number % 3 == 2:
            log.roll()
    replicate(log)
    before = image(log.files)
    compact(log)
    after = image(log.files)
    swapped = f"{0:020d}{file_names.LOG}"
    rest = {name: data for name, data in before.items() if name.startswith(f"{18:020d}") or "." not in name}
    swap = {f"{0:020d}-{18:020d}{file_names.SWAP}": after[swapped]}
    old = sorted(set(before) - set(rest))
    for kept in range(len(old) + 1):
        opened = opened_from(log, {**rest, **swap, **{name: before[name] for name in old[kept:]}})
        assert pairs_of(opened) == pairs_of(log), old[kept:]
        assert opened.end_offset == log.end_offset
        assert opened.producers.states.keys() == log.producers.states.keys()
        assert not [name for name in opened.files.list(FOLDER) if name.endswith(file_names.SWAP)]
        assert append(opened, batch([(b"b", b"+")], writer=Writer(7, 0, 18))).base_offset == 18


def unreadable(**changes: object) -> tuple[PartitionLog, dict[str, bytes]]:
    log = busy_log()
    folder = image(log.files)
    name = companions(folder, file_names.SIDECAR)[1]
    sidecar = decode_sidecar(folder[name], name)
    assert sidecar is not None
    folder[name] = encode_sidecar(msgspec.structs.replace(sidecar, **changes))
    folder[f"{0:020d}-{5:020d}{file_names.CLEANED}"] = b"leftover"
    folder[f"{999:020d}{file_names.OFFSET_INDEX}"] = b"orphan"
    return log, folder


@pytest.mark.parametrize("changes", [{"format": 2}, {"key_id": "k1"}], ids=["later format", "unknown key"])
def test_a_segment_that_is_not_for_us_stops_the_opening_and_nothing_is_touched(changes: dict[str, object]) -> None:
    log, folder = unreadable(**changes)
    files = disk_with(folder)
    with pytest.raises(UnreadableSegmentError) as caught:
        reopened(log, files)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert image(files) == folder


FUTURE = 10**12


@pytest.mark.parametrize(
    "checkpoint",
    [
        Checkpoint(log_start_offset=FUTURE),
        Checkpoint(recovery_point=FUTURE),
        Checkpoint(high_watermark=FUTURE),
        Checkpoint(cleaned_offset=FUTURE),
        Checkpoint(FUTURE, FUTURE, FUTURE, FUTURE),
        Checkpoint(),
    ],
)
def test_checkpoints_from_another_time_are_never_believed_over_the_log(checkpoint: Checkpoint) -> None:
    log = busy_log()
    opened = open_log(disk_with(image(log.files)), FOLDER, PARTITION, log.settings, checkpoint)
    assert {**answers(opened), "stable": None} == {**answers(log), "stable": None}
    assert opened.log_start_offset <= opened.last_stable_offset <= opened.high_watermark <= opened.end_offset
    assert opened.cleaned_offset <= opened.end_offset
    assert append(opened, batch()).base_offset == log.end_offset


def test_a_recovery_point_from_the_future_does_not_turn_a_torn_tail_into_damage() -> None:
    log = new_log()
    fill(log, 5, 2)
    folder = image(log.files)
    folder[f"{0:020d}{file_names.LOG}"] = folder[f"{0:020d}{file_names.LOG}"][:-7]
    opened = open_log(disk_with(folder), FOLDER, PARTITION, log.settings, Checkpoint(recovery_point=FUTURE))
    assert (opened.end_offset, opened.damage) == (8, [])


def test_checkpoints_within_the_log_are_taken() -> None:
    log = busy_log()
    opened = open_log(disk_with(image(log.files)), FOLDER, PARTITION, log.settings, Checkpoint(10, 40, 50, 20))
    assert (opened.log_start_offset, opened.high_watermark, opened.cleaned_offset) == (10, 50, 20)
    low = open_log(disk_with(image(log.files)), FOLDER, PARTITION, log.settings, Checkpoint(10, 40, 5, 20))
    assert low.high_watermark == 10


def test_an_empty_folder_is_an_empty_log() -> None:
    log = new_log()
    assert (log.log_start_offset, log.end_offset, log.high_watermark, log.flushed_offset) == (0, 0, 0, 0)
    assert log.files.list(FOLDER) == [f"{0:020d}{file_names.LOG}"]
    assert contents(reopened(log)) == []


def harmed_middle(position: int, content: bytes) -> PartitionLog:
    """A log whose open segment is damaged below the recovery point, as it opens."""
    log = new_log(segment_bytes=100 * SIZE)
    fill(log, 10, 2)
    replicate(log)
    folder = image(log.files)
    name = f"{0:020d}{file_names.LOG}"
    folder[name] = folder[name][:position] + content + folder[name][position + len(content) :]
    return opened_from(log, folder)


def test_damage_below_the_recovery_point_is_kept_reported_and_remembered() -> None:
    opened = harmed_middle(3 * SIZE + 70, b"\xff")
    for one in (opened, reopened(opened), reopened(reopened(opened))):
        assert [(damage.first_offset, damage.next_offset) for damage in one.damage] == [(6, 8)]
        assert one.end_offset == 20
        read = one.read(0, 10_000)
        assert read.next_offset == 6
        with pytest.raises(CorruptLogError):
            one.read(6, 10_000)
        assert one.read(8, 10_000).next_offset == 20
    assert append(opened, batch()).base_offset == 20
    assert len(opened.segments) == 2, "nothing is written behind damage"


def test_damage_that_would_stop_a_walk_is_still_walked_around_after_two_restarts() -> None:
    opened = harmed_middle(3 * SIZE + 8, (-12).to_bytes(4, "big", signed=True))
    for one in (opened, reopened(opened), reopened(reopened(opened))):
        assert [(damage.first_offset, damage.next_offset) for damage in one.damage] == [(6, 8)]
        assert find_timestamp(one, NOW, LIMIT) == (NOW, 0)
        assert one.read(8, 10_000).next_offset == 20


@pytest.mark.parametrize("missing", [1, 7, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 3 * SIZE, 4 * SIZE])
def test_a_sealed_segment_that_lost_its_end_hides_nothing(missing: int) -> None:
    log = new_log(segment_bytes=4 * SIZE, index_interval_bytes=0)
    fill(log, 12, 2)
    replicate(log)
    folder = image(log.files)
    name = f"{8:020d}{file_names.LOG}"
    folder[name] = folder[name][:-missing]
    opened = opened_from(log, folder)
    first_lost = 8 + 2 * ((4 * SIZE - missing) // SIZE)
    for one in (opened, reopened(opened)):
        assert [(damage.first_offset, damage.next_offset) for damage in one.damage] == [(first_lost, 16)]
        offset = 0
        while offset < first_lost:
            offset = one.read(offset, 10_000).next_offset
        assert offset == first_lost
        for offset in range(first_lost, 16):
            with pytest.raises(CorruptLogError):
                one.read(offset, 10_000)
        assert one.read(16, 10_000).next_offset == 24
        assert one.end_offset == 24


def test_rot_in_a_sealed_segment_does_not_keep_a_log_from_opening() -> None:
    log = busy_log()
    folder = {name: data for name, data in image(log.files).items() if not name.endswith(file_names.SNAPSHOT)}
    name = companions(folder, file_names.LOG)[1]
    folder[name] = folder[name][:8] + (-12).to_bytes(4, "big", signed=True) + folder[name][12:]
    opened = opened_from(log, folder)
    assert opened.end_offset == log.end_offset
    assert [damage.start for damage in opened.damage] == [0]


def test_a_sound_log_is_synced_once_and_its_sidecars_are_read_once() -> None:
    log = busy_log()
    flush(log)
    files = WatchedFiles(log.files)
    opened = reopened(log, files)
    assert answers(opened) == answers(log)
    assert files.count("sync_directory") == 1
    assert [path for act, path in files.acts if act == "sync"] == [opened.active.file.path]
    assert files.count("read", file_names.SIDECAR) == len(log.segments) - 1


def test_names_that_recovery_removes_or_makes_are_durable_before_the_log_is_open() -> None:
    log = busy_log()
    flush(log)
    beyond = file_names.segment_file(FOLDER, log.end_offset + 1, file_names.SNAPSHOT)
    files = WatchedFiles(disk_with({**image(log.files), beyond.rpartition("/")[2]: b"of a log that was longer"}))
    reopened(log, files)
    assert files.acts.index(("remove", beyond)) < len(files.acts) - 1
    assert files.acts[-1] == ("sync_directory", FOLDER)

    bare = WatchedFiles(disk_with({}))
    active = new_log(bare).active.file.path
    assert bare.acts[-2:] == [("sync", active), ("sync_directory", FOLDER)]


def without_segment(log: PartitionLog, base_offset: int) -> dict[str, bytes]:
    return {name: data for name, data in image(log.files).items() if not name.startswith(f"{base_offset:020d}")}


def three_segments(**settings: object) -> PartitionLog:
    """Segments at 0, 8 and 16, each of four batches of two records."""
    log = new_log(segment_bytes=4 * SIZE, index_interval_bytes=0, **settings)
    fill(log, 12, 2)
    replicate(log)
    assert [segment.base_offset for segment in log.segments] == [0, 8, 16]
    return log


def test_a_lost_segment_is_damage_that_is_remembered() -> None:
    opened = opened_from(three_segments(), without_segment(three_segments(), 8))
    for one in (opened, reopened(opened), reopened(reopened(opened))):
        assert [(damage.first_offset, damage.next_offset) for damage in one.damage] == [(8, 16)]
        assert [(segment.base_offset, segment.next_offset) for segment in one.segments] == [(0, 16), (16, 24)]
        assert one.read(0, 10_000).next_offset == 8
        with pytest.raises(CorruptLogError):
            one.read(8, 10_000)
        assert one.read(16, 10_000).next_offset == 24


@pytest.mark.parametrize(("recovery_point", "damage"), [(0, []), (12, []), (13, [(12, 16)]), (24, [(12, 16)])])
def test_a_segment_behind_a_gap_goes_with_the_torn_tail_or_follows_damage(
    recovery_point: int, damage: list[tuple[int, int]]
) -> None:
    log = three_segments()
    sealed = f"{8:020d}{file_names.SIDECAR}"
    folder = {name: data for name, data in image(log.files).items() if name != sealed}
    name = f"{8:020d}{file_names.LOG}"
    folder[name] = folder[name][: 2 * SIZE]  # It ends with a batch; the batches after it never reached the disk.
    opened = reopened(log, disk_with(folder), Checkpoint(recovery_point=recovery_point, high_watermark=recovery_point))

    assert opened.end_offset == (24 if damage else 12)
    assert [(one.first_offset, one.next_offset) for one in opened.damage] == damage
    left = {name for name in image(opened.files) if name.startswith(f"{16:020d}")}
    assert bool(left) is bool(damage)


def test_compaction_leaves_gaps_between_segments_that_are_no_damage() -> None:
    log = three_segments(cleanup_policy="compact")
    folder = {name: data for name, data in image(log.files).items() if not name.endswith(file_names.SIDECAR)}
    name = f"{8:020d}{file_names.LOG}"
    folder[name] = folder[name][: 2 * SIZE]
    opened = reopened(log, disk_with(folder), Checkpoint(recovery_point=24, high_watermark=24))

    assert opened.damage == []
    assert [segment.next_offset for segment in opened.segments] == [8, 16, 24]
    assert opened.read(12, 10_000).next_offset == 24


@pytest.mark.parametrize("harm", ["", file_names.LEADER_EPOCHS, "the last batch"])
def test_what_was_opened_survives_a_loss_of_power_right_after(harm: str) -> None:
    """A process that was killed leaves bytes and names that are in memory only; the log is served from then on."""
    disk = SimDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    disk.sync_directory("/data")
    log = new_log(disk, segment_bytes=4 * SIZE)
    disk.sync_directory("/data")
    for epoch in range(10):
        append(log, batch(2), leader_epoch=epoch)
    if harm == "the last batch":
        file = log.active.file
        file.truncate(file.size() - 1)
    elif harm:
        flush(log)
        disk.remove(f"{FOLDER}/{harm}")
    opened = reopened(log)
    after = reopened(opened, disk.crash("drop_all"))

    assert after.end_offset == opened.end_offset == (18 if harm == "the last batch" else 20)
    assert contents(after) == contents(opened)
    assert after.epochs == opened.epochs
    stored_epochs = LeaderEpochs.decode(read_whole(disk, f"{FOLDER}/{file_names.LEADER_EPOCHS}") or b"")
    assert stored_epochs == opened.epochs, "sealed segments are not read again"
    assert after.damage == []
