"""T4: bugs that a log like ours has had or could have, put back in; the sweep must find every one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest import MonkeyPatch  # noqa: PT013 - a type, used in every signature here
from verify.logs.crash_sweep import Sweep
from verify.logs.log_checks import LogMismatchError

from qanat.log.atomic_files import replace
from qanat.log.compaction.retained_records import Cleaner, _decoded
from qanat.log.files import Buffer, Files
from qanat.log.flush_state import FlushJob
from qanat.log.in_place_truncation import InPlaceTruncation
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot
from qanat.log.recovery.log_recovery import Checkpoint
from qanat.log.retention import DeleteJob
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.log.settings import LogSettings
from qanat.log.truncation import TruncateJob
from qanat.testing.simulation.disk import SimDisk, SimFile
from qanat.wire.batch_header import BatchHeader

MOST_SEEDS = 15
"""Within so many workloads, with two variants of each cut."""


def _nothing(*_: object, **__: object) -> None:
    pass


def acknowledge_before_fsync(patch: MonkeyPatch) -> None:
    patch.setattr(FlushJob, "run", _nothing)


def acknowledge_what_came_during_the_flush(patch: MonkeyPatch) -> None:
    finish = FlushJob.finish

    def finished(job: FlushJob) -> None:
        job.end_offset = job._log.end_offset
        finish(job)

    patch.setattr(FlushJob, "finish", finished)


def forget_the_directory(patch: MonkeyPatch) -> None:
    """C64: names of new segments, sidecars and epochs are left to luck."""

    def replaced(files: Files, path: str, content: Buffer) -> None:
        file = files.open(path + ".tmp", create=True)
        file.write((content,), 0)
        file.sync()
        file.rename(path)

    patch.setattr("qanat.log.flush_state.replace", replaced)
    patch.setattr("qanat.log.segments.segment.replace", replaced)


def seal_before_the_log_is_synced(patch: MonkeyPatch) -> None:
    run, sync = FlushJob.run, SimFile.sync

    def ran(job: FlushJob) -> None:
        closed = {one.segment.path(file_names.LOG) for one in job._closed}
        with MonkeyPatch.context() as inner:
            inner.setattr(SimFile, "sync", lambda file: None if file.path in closed else sync(file))
            run(job)

    patch.setattr(FlushJob, "run", ran)


def cut_but_keep_the_sidecar(patch: MonkeyPatch) -> None:
    patch.setattr(TruncateJob, "_remove_companions", _nothing)


def cut_the_oldest_first(patch: MonkeyPatch) -> None:
    begin = TruncateJob.__init__

    def begun(
        job: TruncateJob,
        log: PartitionLog,
        end_offset: int,
        plan: InPlaceTruncation | None = None,
        *,
        is_restart: bool = False,
    ) -> None:
        begin(job, log, end_offset, plan, is_restart=is_restart)
        if job._kept:
            job._removed.reverse()

    patch.setattr(TruncateJob, "__init__", begun)


def expire_the_newest_first(patch: MonkeyPatch) -> None:
    begin = DeleteJob.__init__

    def begun(job: DeleteJob, log: PartitionLog, segments: list[Segment]) -> None:
        begin(job, log, segments[::-1])

    patch.setattr(DeleteJob, "__init__", begun)


def swap_what_is_not_synced(patch: MonkeyPatch) -> None:
    sync = SimFile.sync

    def synced(file: SimFile) -> None:
        if not file.path.endswith((file_names.CLEANED, file_names.SWAP)):
            sync(file)

    patch.setattr(SimFile, "sync", synced)


def count_aborted_records(patch: MonkeyPatch) -> None:
    """The value of an aborted transaction replaces the committed one."""

    def learned(cleaner: Cleaner, header: BatchHeader, batch: Buffer) -> None:
        if header.next_offset > cleaner.keys.end_offset:
            records = None if header.is_control else _decoded(batch, 1 << 26)
            cleaner.keys.enter(records or (), header.next_offset)

    patch.setattr(Cleaner, "learn", learned)


def keep_what_follows_a_tear(patch: MonkeyPatch) -> None:
    patch.setattr("qanat.log.recovery.log_recovery._remove_newest_first", _nothing)
    believe_that_segments_follow_each_other(patch)


def believe_that_segments_follow_each_other(patch: MonkeyPatch) -> None:
    patch.setattr("qanat.log.recovery.log_recovery._follows", lambda *_, **__: True)


def keep_the_past_of_a_log_that_starts_afresh(patch: MonkeyPatch) -> None:
    patch.setattr("qanat.log.truncation.remove_snapshots", _nothing)


def remember_one_batch_per_producer(patch: MonkeyPatch) -> None:
    def decoded(content: bytes):  # type: ignore[no-untyped-def]
        producers = decode_snapshot(content)
        for state in producers.states.values() if producers is not None else ():
            state.batches = state.batches[-1:]
        return producers

    patch.setattr("qanat.log.state_replay.decode_snapshot", decoded)


def write_epochs_after_sealing(patch: MonkeyPatch) -> None:
    run = FlushJob.run

    def ran(job: FlushJob) -> None:
        epochs, job._epochs = job._epochs, None
        run(job)
        if epochs is not None:
            replace(job._log.files, f"{job._log.directory}/{file_names.LEADER_EPOCHS}", epochs)

    patch.setattr(FlushJob, "run", ran)


def take_every_tail_for_torn(patch: MonkeyPatch) -> None:
    """C60: what is unsound is cut off wherever it is; found only where data rots."""
    from qanat.log.recovery.active_segment_recovery import recover_segment

    def taken(segment: Segment, *, next_offset: int | None, is_dense: bool, **_: object) -> bool:
        return recover_segment(segment, torn_from=0, next_offset=next_offset, is_dense=is_dense)

    patch.setattr("qanat.log.recovery.log_recovery.recover_segment", taken)


def leave_staged_batches_in_sight(patch: MonkeyPatch) -> None:
    """A batch of a staged file has no producer, and is visible, if only the file's name survives its new header."""
    patch.setattr("verify.logs.log_rig.hide", _nothing)
    patch.setattr("qanat.log.segment_ingest.show", _nothing)


def forget_who_sent_a_small_file(patch: MonkeyPatch) -> None:
    """Batches of a small staged file are appended outside of their transaction: every consumer sees them."""
    patch.setattr("qanat.log.staged_parts.set_producer", _nothing)


BUGS: list[Callable[[MonkeyPatch], None]] = [
    leave_staged_batches_in_sight,
    forget_who_sent_a_small_file,
    acknowledge_before_fsync,
    acknowledge_what_came_during_the_flush,
    forget_the_directory,
    seal_before_the_log_is_synced,
    cut_but_keep_the_sidecar,
    cut_the_oldest_first,
    expire_the_newest_first,
    swap_what_is_not_synced,
    count_aborted_records,
    keep_what_follows_a_tear,
    believe_that_segments_follow_each_other,
    keep_the_past_of_a_log_that_starts_afresh,
    remember_one_batch_per_producer,
    write_epochs_after_sealing,
]

QUICK = BUGS[::3]
"""What `make test` looks for; `make test-data` looks for all others."""

FIRST_SEEDS = {
    "acknowledge_what_came_during_the_flush": 2,
    "count_aborted_records": 126,
    "cut_but_keep_the_sidecar": 15,
    "cut_the_oldest_first": 3,
    "forget_who_sent_a_small_file": 4,
    "leave_staged_batches_in_sight": 26,
    "swap_what_is_not_synced": 2,
}
"""Where to start looking for what few workloads bring about (`count_aborted_records`: 1 in 300)."""


def seeds_until_found(first: int) -> int | None:
    """How many workloads it takes until an image is not what it should be."""
    for seed in range(first, first + MOST_SEEDS):
        failures = Sweep(seed, per_cut=2, stops_early=True).run().failures
        if failures:
            assert failures[0].problem.startswith(LogMismatchError.__name__), failures[0].details
            return seed + 1 - first
    return None


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=[] if bug in QUICK else [pytest.mark.long, pytest.mark.data]) for bug in BUGS],
    ids=lambda bug: bug.__name__,
)
def test_the_sweep_finds(bug: Callable[[MonkeyPatch], None], monkeypatch: MonkeyPatch) -> None:
    bug(monkeypatch)

    assert seeds_until_found(FIRST_SEEDS.get(bug.__name__, 0)) is not None, (
        f"{bug.__name__} passes for nothing in {MOST_SEEDS} workloads"
    )


def _loses_rotten_data() -> bool:
    """Whether a rotten bit below the recovery point costs offsets."""
    from verify.logs.log_rig import AT, DIRECTORY, Content, LogRig

    from qanat.log.recovery.log_recovery import open_log

    disk = SimDisk(1)
    rig = LogRig(disk, LogSettings())
    for _ in range(3):
        rig.append(Content(((b"key", b"value", 0),)))
    rig.flush()
    disk.rot(rig.log.active.file.path, 8 * 100)
    log = open_log(disk, DIRECTORY, AT, rig.settings, Checkpoint(recovery_point=3))
    return log.end_offset < 3 or not log.damage


def test_rot_finds_what_no_power_loss_can(monkeypatch: MonkeyPatch) -> None:
    assert not _loses_rotten_data()

    take_every_tail_for_torn(monkeypatch)

    assert _loses_rotten_data()
