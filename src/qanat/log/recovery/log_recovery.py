"""Log recovery: opening a log that a process left behind, cleanly or not.

Sealed segments are complete by definition; only their size is checked. Segments without
a sidecar were being written: they are scanned batch by batch, and unsound
bytes at their end are the torn tail of a write that was never acknowledged.

Rule 1: only the *tail* is ever truncated: the unsealed segments at the end, above
        the recovery point. Anything unsound elsewhere is damage: it stays, is
        reported (`PartitionLog.damage`), and its offsets are not assigned again.
Rule 2: every other file is a hint. Missing, torn or from the future, it
        is rebuilt; the log always wins.
Rule 3: recovery only removes names and truncates tails, so doing it twice, or
        dying in the middle of it, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from qanat.log.atomic_files import TEMPORARY_SUFFIX, read_whole, replace
from qanat.log.files import Files
from qanat.log.leader_epochs import LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.active_segment_recovery import recover_segment
from qanat.log.recovery.compaction_commit import finish_commit
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage, find_damage
from qanat.log.segments.header_digest import HeaderPoint
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import Sidecar, decode_sidecar, encode_sidecar
from qanat.log.segments.verification import merged
from qanat.log.settings import LogSettings
from qanat.log.state_replay import load_producers, remove_snapshots, walk
from qanat.model.ids import LeaderEpoch, Offset, TopicPartition

_LEFTOVERS = (file_names.CLEANED, file_names.TRUNCATED, TEMPORARY_SUFFIX)


class Checkpoint(Struct, frozen=True):
    """The content of the directory's checkpoint files for one partition; all of it may be wrong."""

    log_start_offset: int = 0
    recovery_point: int = 0
    """Everything below was durable once: damage there is no torn tail."""
    high_watermark: int = 0
    cleaned_offset: int = 0
    headers: HeaderPoint | None = None
    """The header digest of the active segment up to the recovery point."""


def open_log(
    files: Files, directory: str, topic_partition: TopicPartition, settings: LogSettings, checkpoint: Checkpoint
) -> PartitionLog:
    """Make the files of a folder into a valid log, whatever happened to them; an empty folder is an empty log."""
    interval_bytes = settings.index_interval_bytes
    content = files.list(directory)
    sidecars = _read_sidecars(files, directory, content)
    _refuse_unreadable(files, directory, sidecars)
    # A process that was killed leaves names that are not durable yet: make them durable before changing anything.
    files.sync_directory(directory)
    if _finish_commits(files, directory, content, interval_bytes):
        content = files.list(directory)
        sidecars = _read_sidecars(files, directory, content)
    offsets = _without_leftovers(files, directory, content)
    known_epochs = LeaderEpochs.decode(read_whole(files, f"{directory}/{file_names.LEADER_EPOCHS}") or b"")
    found = [(base_offset, sidecars.get(base_offset)) for base_offset in offsets.get(file_names.LOG, ())]
    segments = _open_segments(files, directory, settings, checkpoint, known_epochs, found)
    if is_new := not segments:
        segments.append(Segment.create(files, directory, 0, interval_bytes))
    end_offset = segments[-1].next_offset
    log_start, high_watermark = _bounds(checkpoint, segments[0].base_offset, end_offset)
    snapshots = offsets.get(file_names.SNAPSHOT, [])
    has_removed = remove_snapshots(files, directory, keep_to=end_offset, snapshots=snapshots)
    epochs = _load_epochs(known_epochs, segments, end_offset)
    producers = load_producers(segments, end_offset, high_watermark, snapshots=snapshots)
    if epochs.is_dirty:
        # Sealed segments are not walked again, so their epochs must be written down before.
        replace(files, f"{directory}/{file_names.LEADER_EPOCHS}", epochs.encode())
        epochs.is_dirty = False
    _seal_all_but_active(segments)
    if segments[-1].is_sealed:
        segments.append(Segment.create(files, directory, end_offset, interval_bytes))
        is_new = True
    # A segment that was there is synced since `_open_segments`, and so are names that did not change since.
    if is_new:
        segments[-1].file.sync()
    if is_new or has_removed:
        files.sync_directory(directory)
    epochs.truncate_start(Offset(log_start))
    log = PartitionLog(files, directory, topic_partition, settings, segments, epochs, producers, log_start)
    log.has_new_names = False
    log.high_watermark = high_watermark
    log.cleaned_offset = checkpoint.cleaned_offset if checkpoint.cleaned_offset <= end_offset else 0
    return log


def _bounds(checkpoint: Checkpoint, first_offset: int, end_offset: int) -> tuple[int, int]:
    """Log start and high watermark, as far as the checkpoint can belong to this log."""
    # A start beyond the end was not written for this log; using it would empty the log.
    is_start_known = first_offset <= checkpoint.log_start_offset <= end_offset
    log_start = checkpoint.log_start_offset if is_start_known else first_offset
    return log_start, min(max(checkpoint.high_watermark, log_start), end_offset)


def _refuse_unreadable(files: Files, directory: str, sidecars: Mapping[int, Sidecar]) -> None:
    """Raise before any change where a segment's key or format is not available."""
    for base_offset, sidecar in sidecars.items():
        log_file = file_names.segment_file(directory, base_offset, file_names.LOG)
        if sidecar.key_id is not None and files.exists(log_file):
            Segment.sealed(files, directory, base_offset, sidecar).close()


def _finish_commits(files: Files, directory: str, content: list[str], interval_bytes: int) -> bool:
    """A swap file is a decided compaction: it replaces the segments in its range. Returns whether there was any."""
    swaps = [name for name in content if file_names.range_of(name, file_names.SWAP) is not None]
    for name in swaps:
        finish_commit(files, directory, files.open(f"{directory}/{name}"), interval_bytes).close()
    return bool(swaps)


def _without_leftovers(files: Files, directory: str, content: list[str]) -> dict[str, list[int]]:
    """Remove files that were being written, and companions of logs that no longer exist.

    Returns the offsets in the names that stay, by their suffixes.
    """
    offsets = file_names.offsets_by_suffix(content)
    bases = dict.fromkeys(offsets.get(file_names.LOG, ()))
    orphans = [
        file_names.segment_file(directory, offset, suffix)
        for suffix in file_names.COMPANION_SUFFIXES
        for offset in offsets.get(suffix, ())
        if offset not in bases
    ]
    leftovers = [f"{directory}/{name}" for name in content if name.endswith(_LEFTOVERS)]
    for path in (*leftovers, *orphans):
        files.remove(path)
    if leftovers or orphans:
        # Durably, before a new log takes the name of a removed one: it would be taken for sealed.
        files.sync_directory(directory)
    return offsets


def _open_segments(
    files: Files,
    directory: str,
    settings: LogSettings,
    checkpoint: Checkpoint,
    epochs: LeaderEpochs | None,
    found: list[tuple[int, Sidecar | None]],
) -> list[Segment]:
    """All segments, oldest first; those without a sidecar are scanned, and a torn tail is truncated.

    `found`: their base offsets and sidecars.
    """
    point = checkpoint.headers
    recovery_point = max(checkpoint.recovery_point, point.next_offset if point is not None else 0)
    bases = [base_offset for base_offset, _ in found]
    tail_from = next((index + 1 for index in reversed(range(len(found))) if found[index][1] is not None), 0)
    segments: list[Segment] = []
    for index, (base_offset, sidecar) in enumerate(found):
        torn_from = recovery_point if index >= tail_from else None
        if segments and not _follows(segments[-1], base_offset, torn_from, is_dense=not settings.is_compacted):
            _remove_newest_first(files, directory, bases[index:])
            return segments
        if sidecar is not None:
            segments.append(_measured(Segment.sealed(files, directory, base_offset, sidecar)))
            continue
        segment = _unscanned(files, directory, base_offset, settings.index_interval_bytes)
        segments.append(segment)
        # A process that was killed after a failed sync leaves bytes in memory that look written and are not.
        segment.file.sync()
        segment.file.drop_cache()
        following = bases[index + 1] if index + 1 < len(bases) else None
        is_sound_to_end = recover_segment(
            segment,
            torn_from=torn_from,
            next_offset=following,
            is_dense=not settings.is_compacted,
            point=point if point is not None and point.base_offset == base_offset else None,
            epochs=epochs.entries if epochs is not None else (),
        )
        if not is_sound_to_end:
            # Later segments first: a crash between the two must not leave them behind a hole.
            _remove_newest_first(files, directory, bases[index + 1 :])
            segment.file.truncate(segment.size)
            segment.file.sync()
            return segments
    return segments


def _follows(before: Segment, base_offset: int, torn_from: int | None, *, is_dense: bool) -> bool:
    """Whether a segment starts where the one before it ends.

    Where it does not, above the recovery point, bytes or a whole file before it never reached the disk. Elsewhere
    something was lost: the hole is noted as damage. Compaction leaves such holes, too; a
    segment that has lost its sidecar, or never had one because Kafka wrote it, cannot tell.
    """
    if before.next_offset == base_offset:
        return True
    if torn_from is not None and before.next_offset >= min(torn_from, base_offset):
        return False
    if not (is_dense or before.is_sealed):
        before.next_offset = max(before.next_offset, base_offset)
    elif before.next_offset < base_offset:
        _note_hole(before, base_offset)
    return True


def _note_hole(segment: Segment, next_offset: int) -> None:
    """Add lost offsets to a segment's extent, so that the rest is not taken for a torn tail."""
    hole = Damage(segment.size, segment.size, segment.next_offset, next_offset, "what was here is gone")
    segment.damage = (*segment.damage, hole)
    segment.next_offset = next_offset
    if segment.sidecar is not None:
        sidecar = msgspec.structs.replace(segment.sidecar, next_offset=next_offset, damage=segment.damage)
        replace(segment.files, segment.path(file_names.SIDECAR), encode_sidecar(sidecar))
        segment.sidecar = sidecar


def _read_sidecars(files: Files, directory: str, content: list[str]) -> dict[int, Sidecar]:
    """The sidecars of a folder, by base offset, without those that are torn."""
    found: dict[int, Sidecar] = {}
    for base_offset in file_names.offsets_by_suffix(content).get(file_names.SIDECAR, ()):
        path = file_names.segment_file(directory, base_offset, file_names.SIDECAR)
        if (written := read_whole(files, path)) is not None and (sidecar := decode_sidecar(written, path)) is not None:
            found[base_offset] = sidecar
    return found


def _unscanned(files: Files, directory: str, base_offset: int, interval_bytes: int) -> Segment:
    file = files.open(file_names.segment_file(directory, base_offset, file_names.LOG))
    return Segment(files, directory, base_offset, file, interval_bytes)


def _measured(segment: Segment) -> Segment:
    """A sealed segment must have the size that was sealed; where it is shorter, find the damage."""
    held = segment.file.size()
    if held < segment.size:
        sealed_size, segment.size = segment.size, held
        end_offset = segment.next_offset
        damage = list(find_damage(segment.file, 0, held, segment.base_offset, end_offset, end_offset=end_offset))
        segment.damage = merged(segment.damage, damage)
        readable_to = max([_next_offset(segment), *(one.next_offset for one in damage)])
        if readable_to < segment.next_offset:
            reason = f"{sealed_size - held} bytes of the file are gone"
            segment.damage += (Damage(held, held, readable_to, segment.next_offset, reason),)
    return segment


def _next_offset(segment: Segment) -> int:
    return max((header.next_offset for _, header in segment.batches()), default=segment.base_offset)


def _remove_newest_first(files: Files, directory: str, bases: list[int]) -> None:
    """Remove the segments after a torn tail: nothing in them was acknowledged, or the torn one would be sealed."""
    for base_offset in reversed(bases):
        for suffix in (file_names.LOG, *file_names.COMPANION_SUFFIXES):
            files.remove(file_names.segment_file(directory, base_offset, suffix))
        files.sync_directory(directory)


def _seal_all_but_active(segments: list[Segment]) -> None:
    """Seal the segments that the dead process had closed, and a last segment that ends in damage."""
    for index, segment in enumerate(segments):
        is_active = index == len(segments) - 1 and not segment.damage
        if not segment.is_sealed and not is_active:
            sidecar = segment.describe()
            segment.write_seal(sidecar)
            segment.become_sealed(sidecar)


def _load_epochs(known: LeaderEpochs | None, segments: list[Segment], end_offset: int) -> LeaderEpochs:
    """From the checkpoint file up to the first unsealed segment, from the batches after that, or without the file.

    Between the batches (compaction removes them) only the file says where an epoch began. A segment that was
    sealed when it was compacted may be unsealed now: it was truncated, or Kafka wrote it.
    """
    unsealed_from = next((segment.base_offset for segment in segments if not segment.is_sealed), end_offset)
    believed_to = 0 if known is None else unsealed_from
    before = list(known.entries) if known is not None else []
    epochs = LeaderEpochs(list(before))
    epochs.truncate_end(Offset(believed_to))
    walked_to = believed_to
    for segment in segments:
        for _, header, _ in walk(segment) if segment.base_offset >= believed_to else ():
            if header.leader_epoch != epochs.latest:
                for epoch, start in before:
                    if walked_to <= start <= header.base_offset and epochs.latest < epoch <= header.leader_epoch:
                        epochs.assign(epoch, start)
                epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            walked_to = header.next_offset
    epochs.is_dirty = epochs != LeaderEpochs(before)
    return epochs
