"""State rebuilt from batches: producers from any snapshot, tables from none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import FOLDER, Writer, append, batch, end_transaction, examples, flush, image, new_log

from qanat.log.background_jobs import run_now
from qanat.log.partition_log import PartitionLog
from qanat.log.producers import Producers
from qanat.log.segments import file_names
from qanat.log.segments.index_tables import SealedTables
from qanat.log.state_replay import load_producers, remove_snapshots, replay_segment


def log_with_producers(acts: list[int]) -> PartitionLog:
    """Acts 0 to 2 write in a producer's transaction, 3 to 5 end one, the others write plainly."""
    log = new_log(segment_bytes=500)
    sequences = [0, 0, 0]
    for act in acts:
        producer = act % 3
        if act < 3:
            append(log, batch(1, writer=Writer(producer, 0, sequences[producer]), is_transactional=True))
            sequences[producer] += 1
        elif act < 6:
            end_transaction(log, producer, is_commit=act != 4)
        else:
            append(log, batch(2))
    flush(log)
    return log


histories = st.lists(st.integers(0, 7), min_size=5, max_size=40)


@examples
@given(acts=histories, lost=st.sets(st.integers(0, 10)))
def test_producers_are_the_same_whichever_snapshots_are_left(acts: list[int], lost: set[int]) -> None:
    log = log_with_producers(acts)
    snapshots = [name for name in log.files.list(FOLDER) if name.endswith(file_names.SNAPSHOT)]
    for at, name in enumerate(snapshots):
        if at in lost:
            log.files.remove(f"{FOLDER}/{name}")
    entered = log.active.tables.aborted[:]
    log.active.tables.aborted.clear()
    assert load_producers(log.segments, log.end_offset).states == log.producers.states
    assert log.active.tables.aborted == entered, "aborted transactions of the open segment come back on the way"


@examples
@given(acts=histories)
def test_rebuilt_tables_are_the_very_same_files(acts: list[int]) -> None:
    log = log_with_producers(acts)
    before = image(log.files)
    for segment in log.segments[:-1]:
        for suffix in file_names.COMPANION_SUFFIXES:
            log.files.remove(segment.path(suffix))
        run_now(log.begin_rebuild(segment))
        assert isinstance(segment.tables, SealedTables)
        assert segment.tables.is_checked
    assert image(log.files) == before


def test_a_replay_can_begin_inside_a_segment() -> None:
    log = new_log()
    for sequence in range(6):
        append(log, batch(writer=Writer(7, 0, sequence)))
    producers = Producers()
    replay_segment(log.active, producers, 4)
    assert [one.last_offset for one in producers.states[7].batches] == [4, 5]


def test_snapshots_outside_the_given_offsets_are_removed() -> None:
    log = log_with_producers([0, 6] * 12)
    offsets = [
        at for name in log.files.list(FOLDER) if (at := file_names.offset_of(name, file_names.SNAPSHOT)) is not None
    ]
    assert len(offsets) > 3
    remove_snapshots(log.files, FOLDER, keep_from=offsets[1], keep_to=offsets[-2])
    left = [
        at for name in log.files.list(FOLDER) if (at := file_names.offset_of(name, file_names.SNAPSHOT)) is not None
    ]
    assert left == offsets[1:-1]
