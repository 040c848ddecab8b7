"""The test rig of a log: every operation on it, recorded in its history.

A seeded workload (`log_workload`) and the property tests drive the same rig. The rig stands for the log directory too:
it holds checkpoints, and lowers them before it truncates a log, as the directory must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace

from msgspec.structs import replace

from qanat.log.admission import admit
from qanat.log.appended import Appended
from qanat.log.background_jobs import run_now
from qanat.log.compaction.compaction import begin_compaction, cleanable_segments
from qanat.log.files import Files
from qanat.log.flush_state import begin_flush
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.retention import begin_retention
from qanat.log.segment_ingest import IngestJob, check_staged, find_ingested, sequences_there
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.log.staged_parts import open_staged, read_part, remove_staged, staged_parts
from qanat.log.truncation import TruncateJob, TruncationPlanJob, begin_restart, begin_truncation
from qanat.model.errors import NotIngestedError, QanatError
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.wire.batch_header import PREFIX_SIZE, BatchHeader, placed, read_header
from qanat.wire.compression import Codec
from qanat.wire.control import Marker, encode_marker
from qanat.wire.records import Record, encode_batch
from qanat.wire.staged import hide
from verify.logs.log_checks import LogMismatchError, require
from verify.logs.log_history import Entry, History

DIRECTORY = "/log"
STAGING = "/staging"
AT = TopicPartition("events", 0)
LIMITS = DirectorySettings()
FIRST_MS = 1_000_000
_LIMIT_BYTES = 1 << 26


@dataclass(slots=True)
class Client:
    """A producer: its id, its epoch, its sequence and its last batch."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    is_in_transaction: bool = False
    last_batch: bytes | None = None
    last_base: int = -1


@dataclass(frozen=True, slots=True)
class Content:
    """Records to append: for each its key, its value and its age in milliseconds; None for no key or value."""

    records: tuple[tuple[bytes | None, bytes | None, int], ...]
    codec: Codec = Codec.NONE

    def encoded(self, now_ms: int, client: Client | None, *, is_transactional: bool = False) -> bytes:
        records = [Record(at, now_ms - ago_ms, key, value) for at, (key, value, ago_ms) in enumerate(self.records)]
        return bytes(
            encode_batch(
                records,
                codec=self.codec,
                producer_id=client.producer_id if client else -1,
                producer_epoch=client.epoch if client else -1,
                base_sequence=client.next_sequence if client else -1,
                is_transactional=is_transactional,
            )
        )


def _nothing() -> None:
    """The default for what happens during a job."""


class LogRig:
    """One log, its history, its clients and its clock."""

    def __init__(self, files: Files, settings: LogSettings, directory: str = DIRECTORY) -> None:
        self.files = files
        self.settings = settings
        self.directory = directory
        self.history = History()
        self.checkpoint = Checkpoint()
        self.clients = {producer_id: Client(producer_id) for producer_id in (1, 2, 3)}
        self.leader_epoch = 0
        self.coordinator_epoch = 0
        self.now_ms = FIRST_MS
        self.staged = 0
        files.make_directory(directory)
        self.log = open_log(files, directory, AT, settings, self.checkpoint)

    # Appending

    def append(self, content: Content) -> None:
        self._append(content.encoded(self.now_ms, None), None)

    def append_as(self, producer_id: int, content: Content, *, is_transactional: bool) -> None:
        client = self.clients[producer_id]
        is_transactional = is_transactional or client.is_in_transaction
        batch = content.encoded(self.now_ms, client, is_transactional=is_transactional)
        base_offset = self.log.end_offset
        self._append(batch, client)
        client.next_sequence += len(content.records)
        client.is_in_transaction = is_transactional
        client.last_batch, client.last_base = batch, base_offset

    def _append(self, batch: bytes, client: Client | None) -> None:
        admitted = admit(batch, self.settings, self.now_ms, _LIMIT_BYTES)
        base_offset = self.log.end_offset
        self._enter(bytes(admitted.batch), base_offset)
        try:
            appended = self.log.append(admitted, self.leader_epoch, self.now_ms)
        except QanatError:
            self.history.take_back()
            raise
        expected = Appended(base_offset, base_offset + admitted.header.last_offset_delta, False, appended.is_flush_due)
        require(appended == expected, f"append returned {appended} instead of {expected} (client {client})")

    def _enter(self, batch: bytes, base_offset: int) -> None:
        prefix = placed(read_header(batch), base_offset, self.leader_epoch)
        self.history.append(Entry.of(prefix + batch[PREFIX_SIZE:]))

    def ingest(self, producer_id: int | None, contents: Sequence[Content], *, is_transactional: bool = False) -> None:
        """Stage a file of batches, as another process would, and have the log ingest it."""
        client = self.clients[producer_id] if producer_id is not None else None
        is_transactional = client is not None and (is_transactional or client.is_in_transaction)
        path, size, records = self._stage(contents)
        header = self._enter_all(contents, client, is_transactional=is_transactional)
        try:
            checked = check_staged(self.log, path, records, self.settings, self.now_ms)
            require(find_ingested(self.log, header, self.leader_epoch) is None, "it was never ingested")
            job = IngestJob(self.log, checked, header, self.leader_epoch, self.now_ms)
        except NotIngestedError as fault:
            is_wanted = self.settings.keeps_batches and size <= self.settings.segment_bytes
            require(not is_wanted, f"a staged file of {size} bytes was not ingested: {fault}")
            self.history.take_back(len(contents))
            self._append_file(path, header, client, is_transactional=is_transactional)
            return
        base_offset = self.log.end_offset
        run_now(job)
        is_flush_due = self.log.unflushed_records >= self.settings.flush_messages
        expected = Appended(base_offset, base_offset + records - 1, False, is_flush_due)
        require(job.appended == expected, f"an ingest returned {job.appended} instead of {expected}")
        if client is not None:
            again = find_ingested(self.log, header, self.leader_epoch)
            is_known = again is not None and (again.is_duplicate, again.base_offset) == (True, base_offset)
            require(is_known, f"an ingested file at {base_offset} is looked up as {again}")
            client.next_sequence += records
            client.is_in_transaction = is_transactional
            client.last_batch = None

    def append_file(self, producer_id: int | None, contents: Sequence[Content], *, is_transactional: bool) -> None:
        """Stage a file of batches and have the log append it, as small ones are."""
        client = self.clients[producer_id] if producer_id is not None else None
        is_transactional = client is not None and (is_transactional or client.is_in_transaction)
        path, _, _ = self._stage(contents)
        header = self._enter_all(contents, client, is_transactional=is_transactional)
        self.history.take_back(len(contents))
        self._append_file(path, header, client, is_transactional=is_transactional)

    def _append_file(self, path: str, header: BatchHeader, client: Client | None, *, is_transactional: bool) -> None:
        file = open_staged(self.files, path)
        sequence = header.base_sequence
        for part in staged_parts(file, header.record_count, self.settings.max_message_bytes):
            self._append(bytes(read_part(file, part, header, sequence)), client)
            sequence += part.records
            there = sequences_there(self.log, header) if client is not None else 0
            done = sequence - header.base_sequence
            is_known = client is None or there == (done if done < header.record_count else 0)
            require(is_known, f"{there} records of a file are said to be there where {done} are")
        file.close()
        remove_staged(self.files, STAGING.rpartition("/")[0], f"{STAGING.strip('/')}/{path.rpartition('/')[2]}")
        if client is not None:
            again = find_ingested(self.log, header, self.leader_epoch)
            require(again is not None and again.is_duplicate, f"an appended file is looked up as {again}")
            client.next_sequence += header.record_count
            client.is_in_transaction = is_transactional
            client.last_batch = None

    def _stage(self, contents: Sequence[Content]) -> tuple[str, int, int]:
        """Write a file of these batches; returns its path, its size and its number of records."""
        self.files.make_directory(STAGING)
        batches = [bytearray(content.encoded(self.now_ms, None)) for content in contents]
        for batch in batches:
            hide(batch)
        self.staged += 1
        file = self.files.open(f"{STAGING}/{self.staged}", create=True)
        file.write(batches, 0)
        file.close()
        return file.path, sum(map(len, batches)), sum(len(content.records) for content in contents)

    def _enter_all(self, contents: Sequence[Content], client: Client | None, *, is_transactional: bool) -> BatchHeader:
        """Record batches as this client would have sent them; returns the first header, extended over all of them."""
        known = dataclass_replace(client) if client is not None else None
        first: BatchHeader | None = None
        for content in contents:
            batch = content.encoded(self.now_ms, known, is_transactional=is_transactional)
            self._enter(batch, self.history.end)
            first = first or read_header(batch)
            if known is not None:
                known.next_sequence += len(content.records)
        assert first is not None, "a file has a batch"
        records = sum(len(content.records) for content in contents)
        return first._replace(record_count=records, last_offset_delta=records - 1)

    def retry(self, producer_id: int) -> None:
        """Append a producer's last batch again: the log must recognise it as a duplicate."""
        client = self.clients[producer_id]
        if client.last_batch is None:
            return
        admitted = admit(client.last_batch, self.settings, self.now_ms, _LIMIT_BYTES)
        appended = self.log.append(admitted, self.leader_epoch, self.now_ms)
        require(
            appended.is_duplicate and appended.base_offset == client.last_base,
            f"a retry of the batch at {client.last_base} returned {appended}",
        )

    def end_transaction(self, producer_id: int, *, is_commit: bool, bumps_epoch: bool = False) -> None:
        client = self.clients[producer_id]
        if bumps_epoch:
            client.epoch, client.next_sequence, client.last_batch = client.epoch + 1, 0, None
        marker = encode_marker(
            Marker(is_commit, self.coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=client.epoch,
            timestamp_ms=self.now_ms,
        )
        if self.log.producers.check_marker(producer_id, client.epoch, self.coordinator_epoch):
            self._enter(bytes(marker), self.log.end_offset)
        self.log.append_marker(
            producer_id, client.epoch, self.coordinator_epoch, self.leader_epoch, self.now_ms, is_commit=is_commit
        )
        client.is_in_transaction = False

    def change_leader(self, *, is_entered: bool) -> None:
        self.leader_epoch += 1
        if is_entered:
            self.log.become_leader(LeaderEpoch(self.leader_epoch))

    # Jobs

    def flush(self, meanwhile: Callable[[], None] = _nothing) -> None:
        """Flush the log; `meanwhile` runs before and after the part that runs in a worker."""
        job = begin_flush(self.log)
        if job is not None:
            meanwhile()
            job.run()
            meanwhile()
            job.finish()
        self.history.flushed(self.log.flushed_offset)

    def roll(self) -> None:
        if self.log.active.size:
            self.log.roll()

    def replicate(self, offset: int) -> None:
        """Advance the high watermark."""
        self.log.advance_high_watermark(min(offset, self.log.end_offset))

    def delete_records(self, offset: int) -> None:
        if self.log.advance_log_start(min(max(offset, 0), self.log.high_watermark)):
            self.history.log_starts.append(self.log.log_start_offset)

    def retain(self) -> None:
        job = begin_retention(self.log, self.now_ms)
        if job is not None:
            self.history.begin_deletion(self.log.segments[0].base_offset)
            run_now(job)
            self.history.finish_deletion()

    def compact(self, meanwhile: Callable[[], None] = _nothing) -> None:
        """Compact once; `meanwhile` runs before and after the part that runs in a worker."""
        cleanable = cleanable_segments(self.log, self.now_ms)
        if not cleanable or self.log.damage:
            return
        end_offset = cleanable[-1].next_offset
        replaced = self.history.begin_compaction(end_offset, self.now_ms, self.settings.delete_retention_ms)
        job = begin_compaction(self.log, LIMITS, self.now_ms)
        assert job is not None, "there are segments to clean"
        meanwhile()
        job.run()
        meanwhile()
        job.finish()
        require(self.log.cleaned_offset >= end_offset, f"{self.log} was cleaned up to {self.log.cleaned_offset} only")
        self.history.finish_compaction(replaced)

    def truncate(self, end_offset: int) -> None:
        self.flush()
        end_offset = max(end_offset, 0)
        if end_offset >= self.log.end_offset:
            return
        look = TruncationPlanJob(self.log, end_offset)
        run_now(look)
        self._lower_checkpoint(min(end_offset, look.lowest_end))
        self.history.begin_truncation(end_offset, self.log.segments[0].base_offset)
        self._cut(begin_truncation(self.log, end_offset, look.plan))
        require(self.log.end_offset <= end_offset, f"{self.log} was truncated to {end_offset}")

    def truncate_to_epoch(self, epoch: int) -> None:
        """Truncate as a follower does whose leader has nothing after `epoch`."""
        end = self.log.end_of_epoch(LeaderEpoch(epoch))
        if end.end_offset >= 0:
            self.truncate(end.end_offset)

    def restart(self, offset: int) -> None:
        self.flush()
        self._lower_checkpoint(0)
        self.history.begin_restart(offset)
        self._cut(begin_restart(self.log, offset))

    def _lower_checkpoint(self, end_offset: int) -> None:
        before = self.checkpoint
        self.checkpoint = replace(
            before,
            log_start_offset=min(before.log_start_offset, end_offset),
            recovery_point=min(before.recovery_point, end_offset),
            cleaned_offset=min(before.cleaned_offset, end_offset),
            headers=before.headers if before.headers and before.headers.next_offset <= end_offset else None,
        )

    def _cut(self, job: TruncateJob | None) -> None:
        run_now(job)
        self.history.finish_cut(self.log.end_offset)
        for client in self.clients.values():
            self._catch_up(client)

    def _catch_up(self, client: Client) -> None:
        """Reset a client to the state that a new leader would report: truncated batches were never written."""
        state = self.history.producers(self.history.end).states.get(client.producer_id)
        client.last_batch = None
        client.is_in_transaction = state is not None and state.transaction_first_offset >= 0
        if state is None or client.epoch != state.epoch:
            client.epoch = state.epoch if state is not None else client.epoch
            client.next_sequence = 0
        client.next_sequence = state.batches[-1].last_sequence + 1 if state is not None and state.batches else 0

    # Stopping

    def take_checkpoint(self) -> None:
        log = self.log
        bounds = (log.log_start_offset, log.flushed_offset, log.high_watermark, log.cleaned_offset)
        self.checkpoint = Checkpoint(*bounds, log.header_point())

    def reopen(self) -> None:
        """Shut down cleanly and open the log again."""
        self.flush()
        self.take_checkpoint()
        self.log = open_log(self.files, self.directory, AT, self.settings, self.checkpoint)

    def after_crash(self) -> None:
        """Continue with a log that was just recovered: what it lacks was never written, what it has is durable."""
        self.history.finish_crash(self.log.segments[0].base_offset, self.log.end_offset)
        self.leader_epoch += 1
        for client in self.clients.values():
            self._catch_up(client)

    def read_all(self) -> bytes:
        """The whole log, by consecutive reads."""
        log, offset, content = self.log, self.log.log_start_offset, b""
        while offset < log.end_offset:
            found = log.read(offset, 512)
            if found.next_offset <= offset:
                raise LogMismatchError(f"reading at {offset} leads to {found.next_offset}")
            content += b"".join(found.views())
            offset = found.next_offset
        return content
