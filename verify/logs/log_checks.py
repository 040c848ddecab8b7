"""Checks of a recovered log against its history.

Every check raises `LogMismatchError` with one sentence; nothing is repaired or returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from qanat.log.files import Files
from qanat.log.partition_log import PartitionLog
from qanat.log.producers import Producers
from qanat.wire.batch_header import BatchHeader
from qanat.wire.records import decode_records
from verify.logs.log_history import Entry, History, is_covered

_LIMIT_BYTES = 1 << 26


class LogMismatchError(AssertionError):
    """The log holds something that its history does not allow, or lacks something."""


def require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise LogMismatchError(otherwise)


def check_recovered(log: PartitionLog, history: History) -> None:
    """Compare a log that was opened after a crash with its whole history."""
    found = list(stored_batches(log))
    check_bounds(log)
    require(not log.damage, f"sound data is taken for damage: {log.damage}")
    if _is_restarted(log, history, found):
        return
    _check_extent(log, history)
    _check_batches(log, history, found)
    if history.restart_at is not None:
        return  # The rest of the old log is about to be removed, with its epochs and producers.
    _check_producers(log, history)
    _check_aborted(log, history, found)
    _check_epochs(log, history)


def check_bounds(log: PartitionLog) -> None:
    """Offsets are in order, and segments follow each other."""
    bounds = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.end_offset)
    require(list(bounds) == sorted(bounds), f"start, stable, high watermark, end are {bounds}")
    require(log.flushed_offset <= log.end_offset, f"{log} is flushed beyond its end")
    for before, after in zip(log.segments, log.segments[1:], strict=False):
        require(
            before.next_offset == after.base_offset, f"hole between {before} and {after}: offsets belong to no segment"
        )


def stored_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of a log, its bytes included."""
    for segment in log.segments:
        view = segment.view()
        for position, header in segment.batches():
            yield header, bytes(view[position : position + header.size])


def _is_restarted(log: PartitionLog, history: History, found: list[tuple[BatchHeader, bytes]]) -> bool:
    """Whether a restart in progress was completed: the log is empty and continues at its offset."""
    is_there = log.segments[0].base_offset == log.end_offset == history.restart_at and not found
    if is_there and history.is_empty_at_restart:
        # Where it was empty already, before and after look the same: its producers are all there, or none is.
        if log.producers.states:
            _check_producers(log, history)
    elif is_there:
        require(not log.epochs.entries, f"a restarted log remembers {log.epochs}")
        require(not log.producers.states, f"a restarted log remembers {log.producers.states}")
    return is_there


def _check_extent(log: PartitionLog, history: History) -> None:
    start, end = log.segments[0].base_offset, log.end_offset
    require(
        history.oldest_start <= start <= history.newest_start,
        f"the log starts at {start}, {history.oldest_start} to {history.newest_start} is allowed",
    )
    require(
        end >= history.durable_end, f"the log ends at {end}: {end} to {history.durable_end} was flushed and is lost"
    )
    require(end <= max(history.end, start), f"the log ends at {end}, only {history.end} was ever appended")


def _check_batches(log: PartitionLog, history: History, found: list[tuple[BatchHeader, bytes]]) -> None:
    start, end = log.segments[0].base_offset, log.end_offset
    expected = {entry.base_offset: entry for entry in history.entries if start <= entry.base_offset < end}
    last = max((entry.next_offset for entry in expected.values()), default=start)
    require(last == end, f"the log ends at {end}, inside or without the batch that ends at {last}")
    for header, content in found:
        entry = expected.pop(header.base_offset, None)
        require(entry is not None, f"a batch at offset {header.base_offset} was never appended, or is there twice")
        assert entry is not None
        if content != entry.content:
            _check_reduced(entry, content, history)
        elif history.gone:
            shown = [record.offset for record in entry.records if record.offset in history.gone]
            require(not shown, f"offsets {shown} were compacted away and are back")
    for entry in expected.values():
        require(
            history.may_be_gone(entry) or not entry.records,
            f"the batch at {entry.base_offset} is missing",
        )


def _check_reduced(entry: Entry, content: bytes, history: History) -> None:
    """A batch that differs from the appended one must have lost records to compaction, and nothing else."""
    require(history.is_compacted, f"the batch at {entry.base_offset} has other bytes than were appended")
    records = {record.offset: record for record in decode_records(content, _LIMIT_BYTES)}
    for record in entry.records:
        kept = records.pop(record.offset, None)
        if kept is None:
            require(record.offset in history.removable, f"compaction lost the record at offset {record.offset}")
        else:
            require(kept == record, f"the record at {record.offset} was {record} and is {kept}")
            require(record.offset not in history.gone, f"offset {record.offset} was compacted away and is back")
    require(not records, f"the batch at {entry.base_offset} has records that were never appended: {records}")


def _check_epochs(log: PartitionLog, history: History) -> None:
    starts = [log.log_start_offset]
    if history.log_starts:
        starts += [*history.log_starts, *(segment.base_offset for segment in log.segments)]
        if history.is_compacted:
            # The file of epochs may have been cut there; then only the first remaining batch knows the epoch.
            starts += [header.base_offset for _, header in islice(log.segments[0].batches(), 1)]
    allowed = [history.epochs(start, log.end_offset) for start in starts if start >= log.log_start_offset]
    # The epoch of a leader that has written nothing is entered too; a restart drops it, as in Kafka.
    known = [entry for entry in log.epochs.entries if entry.start_offset < log.end_offset]
    require(known in allowed, f"leader epochs are {log.epochs}, the batches say {allowed[0]}")


def _check_producers(log: PartitionLog, history: History) -> None:
    replayed = history.producers(log.end_offset)
    if history.forgets_producers:
        require(_open(log.producers) == _open(replayed), f"open are {_open(log.producers)}, not {_open(replayed)}")
        return
    known, expected = (_standing(one, history) for one in (log.producers, replayed))
    require(known == expected, f"producers are {known}, a replay gives {expected}")


def _open(producers: Producers) -> dict[int, int]:
    """Open transactions and their first offsets."""
    began = {producer_id: state.transaction_first_offset for producer_id, state in producers.states.items()}
    return {producer_id: offset for producer_id, offset in sorted(began.items()) if offset >= 0}


def _standing(producers: Producers, history: History) -> dict[int, tuple[object, ...]]:
    """The state of each producer that must survive; compaction leaves only its last batch."""
    remembered = 1 if history.is_compacted else 5
    return {
        producer_id: (
            state.epoch,
            tuple(batch[:3] for batch in state.batches[-remembered:]),
            state.coordinator_epoch,
            state.transaction_first_offset,
        )
        for producer_id, state in producers.states.items()
    }


def _check_aborted(log: PartitionLog, history: History, found: list[tuple[BatchHeader, bytes]]) -> None:
    start, end = log.segments[0].base_offset, log.end_offset
    known = log.aborted_transactions(start, end)
    expected = [entry for entry in history.aborted(end) if entry.last_offset >= start]
    if not history.is_compacted:
        require(known == expected, f"aborted transactions are {known}, the markers say {expected}")
        return
    require(all(entry in expected for entry in known), f"aborted transactions are {known}, the markers say {expected}")
    for header, _ in found:
        if header.record_count and not header.is_control and is_covered(header, expected):
            require(is_covered(header, known), f"the aborted batch at {header.base_offset} passes for committed")


def log_files(files: Files, directory: str) -> dict[str, bytes]:
    """The files that opening a log again must not change: the batches, and the sidecars of sealed segments."""
    names = [name for name in files.list(directory) if name.endswith((".log", ".sidecar"))]
    return {name: _content(files, f"{directory}/{name}") for name in names}


def _content(files: Files, path: str) -> bytes:
    file = files.open(path)
    content = bytes(file.read(0, file.size()))
    file.close()
    return content


def summary(log: PartitionLog, history: History) -> tuple[object, ...]:
    """The state on which two openings of one log must agree.

    Only the first opening may still know aborted transactions whose records compaction has removed.
    """
    aborted = [] if history.is_compacted else log.aborted_transactions(log.log_start_offset, log.end_offset)
    return (
        [(one.base_offset, one.next_offset, one.size, one.max_timestamp, one.is_sealed) for one in log.segments],
        log.epochs.entries,
        log.producers.states,
        log.damage,
        (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.end_offset),
        aborted,
    )
