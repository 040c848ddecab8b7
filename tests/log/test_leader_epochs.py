"""Leader epochs: what OffsetForLeaderEpoch answers, and what survives truncation, tearing and loss."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    FOLDER,
    NOW,
    append,
    batch,
    compact,
    contents,
    disk_with,
    examples,
    flush,
    image,
    new_log,
    reopened,
    truncate,
)

from qanat.log.atomic_files import read_whole, replace
from qanat.log.files import Buffer, Files
from qanat.log.flush_state import begin_flush
from qanat.log.leader_epochs import UNKNOWN_EPOCH_END, EpochEnd, EpochStart, LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.model.ids import LeaderEpoch, Offset
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries])


def plain(known: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in known.entries]


def assigned(known: LeaderEpochs, epoch: int, start: int) -> LeaderEpochs:
    known.assign(LeaderEpoch(epoch), Offset(start))
    return known


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0, EpochEnd(LeaderEpoch(0), Offset(10))),  # C04: older than the first entry
        (2, EpochEnd(LeaderEpoch(2), Offset(20))),
        (3, EpochEnd(LeaderEpoch(2), Offset(20))),  # C03: an epoch that this log never had
        (4, EpochEnd(LeaderEpoch(4), Offset(30))),
        (6, EpochEnd(LeaderEpoch(4), Offset(30))),
        (7, EpochEnd(LeaderEpoch(7), Offset(42))),  # the latest ends where the log ends
        (8, UNKNOWN_EPOCH_END),
        (-1, UNKNOWN_EPOCH_END),
    ],
)
def test_c03_the_answer_is_the_largest_epoch_at_or_below_and_its_end(asked: int, expected: EpochEnd) -> None:
    known = epochs((2, 10), (4, 20), (7, 30))
    assert known.end_of(LeaderEpoch(asked), Offset(42)) == expected


def test_a_log_without_epochs_answers_unknown() -> None:
    assert epochs().end_of(LeaderEpoch(0), Offset(0)) == UNKNOWN_EPOCH_END


def test_c04_a_new_leader_enters_its_epoch_though_it_appends_nothing() -> None:
    log = new_log()
    append(log, batch(3), leader_epoch=1)
    log.become_leader(LeaderEpoch(4))
    assert plain(log.epochs) == [(1, 0), (4, 3)]
    assert log.end_of_epoch(LeaderEpoch(1)) == EpochEnd(LeaderEpoch(1), Offset(3))
    assert log.end_of_epoch(LeaderEpoch(4)) == EpochEnd(LeaderEpoch(4), Offset(3))


def test_the_epoch_of_a_leader_that_appended_nothing_is_replaced_by_its_successors() -> None:
    assert plain(assigned(epochs((1, 0), (4, 3)), 5, 3)) == [(1, 0), (5, 3)]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ((3, 30), [(1, 0), (2, 10), (3, 30)]),
        ((2, 50), [(1, 0), (2, 10)]),  # known
        ((5, 10), [(1, 0), (5, 10)]),  # same start
        ((5, 5), [(1, 0), (5, 5)]),  # earlier start
        ((1, 20), [(1, 0)]),  # the epoch went back to one that is known
        ((0, 20), [(0, 20)]),  # the epoch went back to one that is not
        ((5, 0), [(5, 0)]),
        ((-1, 50), [(1, 0), (2, 10)]),  # a batch without an epoch
    ],
)
def test_c05_an_entry_that_contradicts_a_new_one_is_dropped(
    new: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    assert plain(assigned(epochs((1, 0), (2, 10)), *new)) == expected


def test_c05_an_epoch_that_goes_on_after_ours_in_which_we_wrote_nothing_began_where_it_did() -> None:
    """Found by the simulation: we led epoch 2 and wrote nothing, and follow a leader that wrote more in epoch 1."""
    known = assigned(epochs((0, 0), (1, 4)), 2, 5)

    assigned(known, 1, 5)

    assert plain(known) == [(0, 0), (1, 4)]
    assert known.epoch_at(Offset(4)) == 1
    assert known.end_of(LeaderEpoch(0), Offset(9)).end_offset == 4


@examples
@given(assignments=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=20))
def test_c05_epochs_and_starts_rise_strictly_whatever_is_assigned(assignments: list[tuple[int, int]]) -> None:
    known = epochs()
    for epoch, start in assignments:
        assigned(known, epoch, start)
    entries = plain(known)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(entries))
    assert LeaderEpochs.decode(known.encode()) == known


@pytest.mark.parametrize(
    ("end", "expected"),
    [(40, [(1, 0), (2, 10), (3, 20)]), (20, [(1, 0), (2, 10)]), (11, [(1, 0), (2, 10)]), (10, [(1, 0)]), (0, [])],
)
def test_c05_truncation_at_the_end_forgets_epochs_that_start_there(end: int, expected: list[tuple[int, int]]) -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_end(Offset(end))
    assert plain(known) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [(1, 0), (2, 10), (3, 20)]),
        (5, [(1, 5), (2, 10), (3, 20)]),
        (10, [(2, 10), (3, 20)]),
        (15, [(2, 15), (3, 20)]),
        (99, [(3, 99)]),
    ],
)
def test_c05_truncation_at_the_start_keeps_the_epoch_that_spans_it(start: int, expected: list[tuple[int, int]]) -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_start(Offset(start))
    assert plain(known) == expected


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (5, 1), (9, 1), (10, 2), (99, 2)])
def test_every_offset_has_the_epoch_of_its_leader(offset: int, epoch: int) -> None:
    assert epochs((1, 5), (2, 10)).epoch_at(Offset(offset)) == epoch


def test_the_file_is_kafkas_text() -> None:
    assert epochs((1, 0), (4, 300)).encode() == b"0\n2\n1 0\n4 300\n"
    assert LeaderEpochs.decode(b"0\n2\n1 0\n4 300\n") == epochs((1, 0), (4, 300))
    assert LeaderEpochs.decode(b"0\n0\n") == epochs()


def test_a_torn_file_is_not_believed_at_any_length() -> None:
    content = epochs((1, 0), (4, 300), (12, 1234)).encode()
    for length in range(len(content)):
        assert LeaderEpochs.decode(content[:length]) is None, content[:length]


@pytest.mark.parametrize(
    "content",
    [
        b"1\n1\n1 0\n",
        b"0\n2\n1 0\n",
        b"0\n1\n1 0\n2 5\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n1 -5\n",
        b"0\n1\n1 0 7\n",
        b"0\n1\na b\n",
        b"\x00" * 12,
        b"\xff\xfe0\n",
    ],
)
def test_a_file_that_cannot_be_right_is_not_believed(content: bytes) -> None:
    assert LeaderEpochs.decode(content) is None


def test_the_epochs_of_a_log_come_back_after_a_restart_and_follow_a_truncation() -> None:
    log = new_log(segment_bytes=300)
    for epoch in (1, 1, 3, 3, 6, 6):
        append(log, batch(2), leader_epoch=epoch)
    flush(log)
    assert plain(reopened(log).epochs) == [(1, 0), (3, 4), (6, 8)]
    truncate(log, 8)
    assert plain(log.epochs) == plain(reopened(log).epochs) == [(1, 0), (3, 4)]


def test_epochs_are_on_disk_before_the_segments_that_hold_them_are_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a crash in between leaves sealed segments that are never walked, and epochs that are lost."""
    log = new_log(segment_bytes=200)
    for epoch in (1, 2, 3, 4):
        append(log, batch(2), leader_epoch=epoch)
    known: list[LeaderEpochs | None] = []

    def watched(files: Files, path: str, content: Buffer) -> None:
        assert path.endswith(file_names.SIDECAR)
        known.append(LeaderEpochs.decode(read_whole(files, f"{FOLDER}/{file_names.LEADER_EPOCHS}") or b""))
        replace(files, path, content)

    monkeypatch.setattr("qanat.log.segments.segment.replace", watched)
    flush(log)
    assert known == [log.epochs] * len(log.segments[:-1]) != []


def test_epochs_found_in_a_dead_process_segments_are_on_disk_before_those_are_sealed() -> None:
    log = new_log(segment_bytes=200)
    for epoch in (1, 2, 3, 4):
        append(log, batch(2), leader_epoch=epoch)
    files = disk_with(image(log.files))
    opened = reopened(log, files)
    assert opened.epochs == log.epochs
    assert begin_flush(opened) is None, "an opened log is on disk as it is"
    assert reopened(log, files).epochs == log.epochs


def test_epochs_before_the_start_of_the_log_are_forgotten_when_it_is_opened() -> None:
    log = new_log()
    for epoch in (1, 2, 3):
        append(log, batch(2), leader_epoch=epoch)
    flush(log)
    log.advance_high_watermark(6)
    stale = image(log.files)
    log.advance_log_start(5)
    assert plain(log.epochs) == plain(reopened(log, disk_with(stale)).epochs) == [(3, 5)]


@pytest.mark.parametrize("content", [b"", b"0\n1\n1 0", b"0\n1\n9 3\n", b"0\n2\n1 0\n7 99\n", b"rubbish\n"])
def test_c05_a_file_that_is_torn_or_of_another_time_is_not_believed_over_the_batches(content: bytes) -> None:
    log = new_log()
    for epoch in (1, 2, 3):
        append(log, batch(2), leader_epoch=epoch)
    flush(log)
    assert reopened(log, disk_with({**image(log.files), file_names.LEADER_EPOCHS: content})).epochs == log.epochs


def compacted_log() -> PartitionLog:
    """One sealed segment that compaction has left without the first record of epoch 1 and without all of epoch 2."""
    log = new_log(cleanup_policy="compact")
    for epoch, keys in enumerate(["ab", "cd", "e", "fcegh"]):
        for key in keys:
            append(log, batch([(key.encode(), b"value")]), leader_epoch=epoch)
    compact(log)
    assert [record.offset for record in contents(log)] == [0, 1, 3, 5, 6, 7, 8, 9]
    assert plain(log.epochs) == [(0, 0), (1, 2), (2, 4), (3, 5)]
    return log


def test_a_cut_through_what_was_compacted_leaves_every_epoch_where_it_began() -> None:
    """A follower that asks for the end of an epoch must not keep what another leader wrote over."""
    log = compacted_log()
    truncate(log, 8)
    assert not log.segments[0].is_sealed, "it is walked when it is opened"
    for one in (log, reopened(log)):
        assert plain(one.epochs) == [(0, 0), (1, 2), (2, 4), (3, 5)]
        assert one.end_of_epoch(LeaderEpoch(0)) == EpochEnd(LeaderEpoch(0), Offset(2))
        assert one.end_of_epoch(LeaderEpoch(2)) == EpochEnd(LeaderEpoch(2), Offset(5))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"0\n4\n0 0\n1 2\n2 4\n3 5\n", [(0, 0), (1, 2), (2, 4), (3, 5)]),
        (b"0\n2\n0 0\n2 2\n", [(0, 0), (1, 3), (3, 5)]),  # the record at 3 is of an earlier epoch
        (b"0\n3\n0 0\n1 1\n3 3\n", [(0, 0), (1, 3), (3, 5)]),  # so are those at 1 and 3
        (b"0\n2\n1 0\n4 5\n", [(0, 0), (1, 3), (3, 5)]),  # and all of them
        (b"0\n1\n0 0", [(0, 0), (1, 3), (3, 5)]),  # torn
    ],
)
def test_between_the_batches_the_file_is_believed_as_far_as_they_allow(
    content: bytes, expected: list[tuple[int, int]]
) -> None:
    log = compacted_log()
    unsealed = {name: data for name, data in image(log.files).items() if not name.endswith(file_names.SIDECAR)}
    assert plain(reopened(log, disk_with({**unsealed, file_names.LEADER_EPOCHS: content})).epochs) == expected


@pytest.mark.parametrize("is_full", [False, True])
def test_an_epoch_that_was_cut_off_in_place_does_not_come_back_between_batches_of_later_leaders(is_full: bool) -> None:
    disk = SimDisk(1)
    log = new_log(disk, cleanup_policy="compact")
    for epoch in (0, 1):
        append(log, batch(2), leader_epoch=epoch)
    flush(log)
    file = log.active.file
    disk.faults = DiskFaults(capacity_bytes=0 if is_full else None)
    truncate(log, 2)
    assert log.active.file is file, "it was cut in place"
    disk.faults = DiskFaults()
    if is_full:
        flush(log)
    log.append_replicated(batch(2, at=6, leader_epoch=2), NOW)
    assert plain(log.epochs) == plain(reopened(log, disk.crash("keep_all")).epochs) == [(0, 0), (2, 6)]


def test_a_list_without_entries_takes_its_first_epoch_at_any_offset() -> None:
    known = LeaderEpochs()
    assert known.latest == -1
    assert not known.is_dirty, "nothing to write yet"

    known.assign(LeaderEpoch(0), Offset(0))
    assert known.entries == (EpochStart(LeaderEpoch(0), Offset(0)),)
    assert known.is_dirty


def test_after_a_cut_the_epoch_in_force_is_the_last_one_that_is_left() -> None:
    known = epochs((1, 0), (3, 5), (4, 9))
    known.truncate_end(Offset(9))

    assert known.latest == 3
    assert known.end_of(LeaderEpoch(3), Offset(9)) == EpochEnd(LeaderEpoch(3), Offset(9))
    known.truncate_start(Offset(6))
    assert known.latest == 3


def test_an_epoch_in_force_in_which_nothing_was_written_is_left_as_it_is_when_it_is_entered_again() -> None:
    known = epochs((1, 0), (3, 5))
    known.assign(LeaderEpoch(4), Offset(5))
    entered = known.entries
    known.is_dirty = False
    known.assign(LeaderEpoch(4), Offset(5))

    assert known.entries == entered
    assert not known.is_dirty


@pytest.mark.parametrize("lines", [b"3 0\n3 5\n", b"3 5\n4 5\n", b"4 0\n3 5\n"])
def test_c05_a_file_whose_epochs_or_starts_do_not_rise_is_not_believed(lines: bytes) -> None:
    assert LeaderEpochs.decode(b"0\n2\n" + lines) is None


@pytest.mark.parametrize(
    ("epoch", "start", "is_believed"),
    [(2**31 - 1, 2**63 - 1, True), (2**31, 0, False), (2**31 - 1, 2**63, False), (0, 0, True)],
)
def test_c05_a_file_with_numbers_that_no_batch_can_have_is_not_believed(
    epoch: int, start: int, is_believed: bool
) -> None:
    assert (LeaderEpochs.decode(b"0\n1\n%d %d\n" % (epoch, start)) is not None) is is_believed


def test_c05_an_epoch_behind_the_end_of_the_log_is_not_believed_where_nothing_follows_the_sealed_segments() -> None:
    log = new_log()
    append(log, batch(2), leader_epoch=1)
    log.roll()
    flush(log)
    changed = {**image(log.files), file_names.LEADER_EPOCHS: b"0\n2\n1 0\n7 99\n"}

    again = reopened(log, disk_with(changed))

    assert plain(again.epochs) == [(1, 0)]
    assert again.epochs.latest == 1


def test_c05_an_epoch_between_batches_of_later_leaders_is_not_believed() -> None:
    log = new_log(cleanup_policy="compact")
    log.append_replicated(batch(2, at=0, leader_epoch=5), NOW)
    log.append_replicated(batch(2, at=8, leader_epoch=6), NOW)
    flush(log)
    changed = {**image(log.files), file_names.LEADER_EPOCHS: b"0\n1\n3 4\n"}

    assert plain(reopened(log, disk_with(changed)).epochs) == [(5, 0), (6, 8)]
