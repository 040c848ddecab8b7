"""A data directory: locked, opened by the catalogue or recovered, closed for a quick next start.

    meta.properties                 whose data this is
    .lock                           one process at a time
    .kafka_cleanshutdown            written last when closing, removed first when opening
    catalogue.db                    the result of the last clean shutdown (adapters.sqlite_catalogue)
    *-checkpoint                    hints for recovery (checkpoints)
    staging/                        files that may become segments (segment_ingest); their producer makes the folder
    <topic>-<partition>/            a log, with its topic's id beside it
    <topic>-<partition>.*-stray/    a log of a topic that the metadata store does not know, set aside
    <topic>-<partition>.*-delete/   a deleted log, until the next checkpoint no longer lists it (partition_folders)

Rule 1: a log that cannot be opened is offline; the others open regardless.
Rule 2: a log whose folder was removed from outside is offline, too: it does not come back empty.
Rule 3: see `directory_state`: one failed write or fsync fails the directory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import astuple

from qanat.log.atomic_files import read_whole, replace
from qanat.log.background_jobs import run_now
from qanat.log.directories import checkpoints
from qanat.log.directories.catalogue import Catalogue, PartitionRow, close_log, reopen_log
from qanat.log.directories.identity import (
    DirectoryIdentity,
    PartitionIdentity,
    claim_identity,
    read_partition_identity,
    write_partition_identity,
)
from qanat.log.directories.partition_folders import (
    DELETED,
    STRAY,
    DeleteLogJob,
    LostLog,
    LostLogError,
    SetAsideJob,
    empty_folder,
    lost_logs,
    parse_folder,
    remove_empty,
    removed_partitions,
)
from qanat.log.directory_state import DirectoryState
from qanat.log.files import Files, Lock
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.model.errors import DiskFullError, StorageError
from qanat.model.ids import TopicPartition

_LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

TopicSettings = Callable[[str], LogSettings]


class LogDirectory:
    """All logs in one data directory, by partition. Made by `open_directory`."""

    def __init__(
        self, files: Files, path: str, settings: DirectorySettings, catalogue: Catalogue, lock: Lock, generation: str
    ) -> None:
        self.files = files
        self.path = path
        self.settings = settings
        self.state = DirectoryState()
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, StorageError] = {}
        self.topic_ids: dict[TopicPartition, str] = {}
        """The topic id of each log, offline ones included; empty where it is lost."""
        self.was_clean = False
        self.sound_since: int | None = 0
        """The revision of the metadata store since which nothing was lost here, 0 where nothing ever was; None after a
        crash, until the broker has reported it to the cluster. Every crash may lose what was not flushed."""
        self.stopped_at = -1
        """The metadata store's revision at which the previous run stopped cleanly; -1 where it did not."""
        self.known_revision = -1
        """The newest revision of the metadata store that this run has seen; a clean shutdown writes it down."""
        self.reports_crashes = False
        """Whether the broker reports crashes to the cluster: until it has, no shutdown counts as clean."""
        self.identity: DirectoryIdentity | None = None
        """Whose data this is, once it is read."""
        self.is_new = False
        """Whether the directory is opened for the first time."""
        self.truncating: dict[TopicPartition, int] = {}
        """The ends of logs that are being truncated: until that is done, checkpoints must not exceed them."""
        self._hints: dict[TopicPartition, Checkpoint] = {}
        """The content of the checkpoint files, as read or written here."""
        self._hints_begun: dict[TopicPartition, Checkpoint] = {}
        """Their content once the newest are written."""
        self.lost: dict[TopicPartition, LostLog] = {}
        """Logs whose folders are missing: offline if their topics still exist (`begin_create`)."""
        self._deleted_folders: list[str] = []
        """Folders of deleted logs, which the checkpoint files may still list."""
        self._catalogue = catalogue
        self._lock = lock
        self._generation = generation

    def __repr__(self) -> str:
        return f"<LogDirectory {self.path} {len(self.logs)} logs, {len(self.offline)} offline>"

    def folder(self, at: TopicPartition) -> str:
        return f"{self.path}/{at}"

    def create(self, at: TopicPartition, topic_id: str, settings: LogSettings) -> PartitionLog:
        """A new, empty log, durable under its name; an event loop uses `begin_create` instead."""
        job = self.begin_create(at, topic_id, settings)
        try:
            run_now(job)
        except DiskFullError:
            raise
        except StorageError as error:
            self.state.fail(error)
            raise
        return self.logs[at]

    def begin_create(
        self, at: TopicPartition, topic_id: str, settings: LogSettings, revision: int = 0, generation: int = 0
    ) -> CreateLogJob:
        """A job that makes a new, empty log; when it is finished, the log is durable under its name and open.

        `revision` is one of the metadata store at which the topic existed, `generation` the epoch of this broker.
        """
        assert at not in self.logs, f"{at} exists"
        self.state.require_working()
        lost = self.lost.pop(at, None)
        if lost is not None and lost.topic_id in ("", topic_id):
            self.topic_ids[at] = lost.topic_id
            self.offline[at] = lost.error(at, self.folder(at))
        if at in self.offline:
            raise StorageError(f"{at} cannot be opened: {self.offline[at]}")
        # Checkpoints of an earlier log of this name would hide records of this one after a crash.
        forgetting = self.begin_checkpoint() if self.has_checkpoint(at) else None
        return CreateLogJob(self, at, PartitionIdentity(topic_id, revision, generation), settings, forgetting)

    def has_checkpoint(self, at: TopicPartition) -> bool:
        """Whether the checkpoint files list a partition."""
        return at in self._hints

    def has_checkpoint_beyond(self, at: TopicPartition, end_offset: int) -> bool:
        """Whether the checkpoint files, or those being written, hold an offset beyond `end_offset`."""
        known = [hints[at] for hints in (self._hints, self._hints_begun) if at in hints]
        points = [checkpoint.headers.next_offset for checkpoint in known if checkpoint.headers is not None]
        offsets = [offset for checkpoint in known for offset in astuple(checkpoint)[: len(checkpoints.FILES)]]
        return any(offset > end_offset for offset in (*points, *offsets))

    def add(self, log: PartitionLog, topic_id: str) -> None:
        """Add a log: from here on it shares the directory's state."""
        log.state = self.state
        self.logs[log.topic_partition] = log
        self.topic_ids[log.topic_partition] = topic_id

    def detach(self, at: TopicPartition) -> PartitionLog:
        """Remove a partition: holders of its log are refused from here on."""
        log = self.logs.pop(at)
        del self.topic_ids[at]
        self.state.unflushed_bytes -= log.unflushed_bytes
        log.state = DirectoryState.of_deleted(at, log.unflushed_bytes)
        return log

    def begin_delete(self, at: TopicPartition) -> DeleteLogJob:
        """Delete a partition: at once in memory, on disk with the job."""
        return self.begin_removal(self.detach(at))

    def begin_removal(self, log: PartitionLog) -> DeleteLogJob:
        """A job that removes the files of a log that was detached. No flush of the log may be under way."""
        assert log.topic_partition not in self.logs, "let it go first"
        assert not log.is_flushing, "wait for its flush"
        deleted = f"{log.directory}.{self._generation}{DELETED}"
        return DeleteLogJob(self.files, log.directory, deleted, log.segments, self._deleted_folders.append)

    def begin_delete_offline(self, at: TopicPartition) -> DeleteLogJob:
        """Delete a partition that cannot be opened: at once in memory, on disk with the job."""
        del self.offline[at]
        self.topic_ids.pop(at, None)
        folder = self.folder(at)
        return DeleteLogJob(
            self.files, folder, f"{folder}.{self._generation}{DELETED}", (), self._deleted_folders.append
        )

    def known_since(self, at: TopicPartition) -> int | None:
        """A revision of the metadata store at which the partition's topic existed; None where it is not known."""
        try:
            return read_partition_identity(self.files, self.folder(at)).revision or None
        except StorageError:
            return None

    def generation_of(self, at: TopicPartition) -> int:
        """The epoch of the broker that made a partition's log; 0 where it is not known."""
        try:
            return read_partition_identity(self.files, self.folder(at)).generation
        except StorageError:
            return 0

    def forget_lost(self, at: TopicPartition) -> bool:
        """Forget a log whose folder is missing, so that it can be made anew; False where that is not its fault."""
        if not isinstance(self.offline.get(at), LostLogError):
            return False
        del self.offline[at]
        self.topic_ids.pop(at, None)
        return True

    def begin_set_aside(self, at: TopicPartition) -> SetAsideJob:
        """Remove a partition and rename its folder, for an operator to decide about."""
        folder = self.folder(at)
        aside = f"{folder}.{self._generation}{STRAY}"
        if self.offline.pop(at, None) is not None:
            self.topic_ids.pop(at, None)
            return SetAsideJob(self.files, folder, aside, ())
        return SetAsideJob(self.files, folder, aside, self.detach(at).segments)

    def begin_checkpoint(self) -> CheckpointJob:
        """Write recovery points, log starts, high watermarks and the progress of compaction."""
        # Offline logs were not read: their checkpoints stay as they are.
        hints = {at: self._hints[at] for at in (*self.offline, *self.lost) if at in self._hints}
        for at, log in self.logs.items():
            end_offset = self.truncating.get(at, log.end_offset)
            headers = log.header_point()
            hints[at] = Checkpoint(
                min(log.log_start_offset, end_offset),
                min(log.flushed_offset, end_offset),
                min(log.high_watermark, end_offset),
                min(log.cleaned_offset, end_offset),
                headers if headers is not None and headers.next_offset <= end_offset else None,
            )
        self._hints_begun = hints
        return CheckpointJob(self, hints, list(self._deleted_folders))

    def note_hints(self, hints: dict[TopicPartition, Checkpoint], removed: list[str]) -> None:
        """Remember the content of the checkpoint files, and which folders they have made superfluous."""
        self._hints = hints
        self._deleted_folders = [folder for folder in self._deleted_folders if folder not in removed]

    def close(self) -> None:
        """Flush and write everything, the clean-shutdown marker last. A failed directory stays as it is."""
        try:
            if self.state.failure is None:
                for log in self.logs.values():
                    run_now(begin_flush(log))
                run_now(self.begin_checkpoint())
                self._catalogue.save(self._generation, self._rows())
                if self.sound_since is not None or not self.reports_crashes:
                    marker = f"{self._generation}\n{self.sound_since or 0}\n{self.known_revision}\n"
                    replace(self.files, f"{self.path}/{CLEAN_SHUTDOWN}", marker.encode())
        finally:
            for log in self.logs.values():
                for segment in log.segments:
                    with suppress(StorageError):
                        segment.close()
            self.logs.clear()
            self._lock.release()

    def _rows(self) -> list[PartitionRow]:
        return [close_log(log, self.topic_ids[at]) for at, log in self.logs.items()]

    def load(self, topic_settings: TopicSettings) -> None:
        """Open all logs in the directory: by the catalogue after a clean shutdown, by recovery otherwise."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        generation, sound_since, self.stopped_at = _read_marker(read_whole(self.files, marker) or b"")
        self.was_clean = bool(generation)
        self.sound_since = sound_since if self.was_clean or self.is_new else None
        self.files.remove(marker)
        self.files.sync_directory(self.path)
        rows = {row.topic_partition: row for row in self._catalogue.load(generation)} if generation else {}
        written = (*checkpoints.FILES, checkpoints.HEADERS)
        self._hints = checkpoints.decode_files(
            {name: read_whole(self.files, f"{self.path}/{name}") for name in written}
        )
        content = self.files.list(self.path)
        found = [at for name in content if (at := parse_folder(name)) is not None]
        self.lost = lost_logs(rows, self._hints, [*found, *self._removed_before(content)])
        settings = {topic: topic_settings(topic) for topic in dict.fromkeys(at.topic for at in found)}
        for at in found:
            self._load_one(at, rows.get(at), self._hints.get(at, Checkpoint()), settings[at.topic])

    def _removed_before(self, content: list[str]) -> list[TopicPartition]:
        """Partitions that were deleted or set aside before; remains of the deleted ones are removed."""
        deleted = list(removed_partitions(content, DELETED))
        for _, name in deleted:
            with suppress(StorageError):  # It does no harm; the next start tries again.
                empty_folder(self.files, f"{self.path}/{name}")
            self._deleted_folders.append(f"{self.path}/{name}")
        return [at for at, _ in (*deleted, *removed_partitions(content, STRAY))]

    def _load_one(self, at: TopicPartition, row: PartitionRow | None, hint: Checkpoint, settings: LogSettings) -> None:
        folder = self.folder(at)
        self.topic_ids[at] = ""
        try:
            log = reopen_log(self.files, folder, row, settings) if row is not None else None
            topic_id = row.topic_id if row is not None else read_partition_identity(self.files, folder).topic_id
            self.topic_ids[at] = topic_id
            self.add(log or open_log(self.files, folder, at, settings, hint), topic_id)
        except StorageError as error:
            self.offline[at] = error


def _read_marker(content: bytes) -> tuple[str, int, int]:
    """The run that ended cleanly, empty where none did; since when nothing was lost; when it stopped."""
    generation, sound_since, revision, *_ = (*content.decode(errors="replace").strip().split("\n"), "", "")
    return generation, _number(sound_since, 0), _number(revision, -1)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() else otherwise


def open_directory(
    files: Files,
    path: str,
    settings: DirectorySettings,
    catalogue: Catalogue,
    identity: DirectoryIdentity,
    generation: str,
    topic_settings: TopicSettings,
) -> LogDirectory:
    """Lock a data directory, which is made if need be, and open every log in it.

    `generation` names this run and was never used before. Raises `DirectoryLockedError` where another process
    holds the lock, `StorageError` where it belongs to another broker or cannot be written.
    """
    files.make_directory(path)
    lock = files.lock(f"{path}/{_LOCK}")
    try:
        directory = LogDirectory(files, path, settings, catalogue, lock, generation)
        directory.identity = claim_identity(files, path, identity)
        directory.is_new = directory.identity == identity
        directory.load(topic_settings)
    except BaseException:
        lock.release()
        raise
    return directory


class CheckpointJob:
    """Writes the checkpoint files, then removes the folders that only recorded deletions since the last ones."""

    def __init__(self, directory: LogDirectory, hints: dict[TopicPartition, Checkpoint], needless: list[str]) -> None:
        self._directory = directory
        self._hints = hints
        self._needless = needless

    def run(self) -> None:
        directory = self._directory
        for name, content in checkpoints.encode_files(self._hints).items():
            replace(directory.files, f"{directory.path}/{name}", content)
        remove_empty(directory.files, self._needless)

    def finish(self) -> None:
        self._directory.note_hints(self._hints, self._needless)


class CreateLogJob:
    """Makes a partition's folder and its first segment."""

    def __init__(
        self,
        directory: LogDirectory,
        at: TopicPartition,
        identity: PartitionIdentity,
        settings: LogSettings,
        forgetting: CheckpointJob | None,
    ) -> None:
        self._directory = directory
        self._at = at
        self._identity = identity
        self._settings = settings
        self._forgetting = forgetting
        self._log: PartitionLog | None = None

    def run(self) -> None:
        files, folder = self._directory.files, self._directory.folder(self._at)
        if self._forgetting is not None:
            self._forgetting.run()
        files.make_directory(folder)
        write_partition_identity(files, folder, self._identity)
        self._log = open_log(files, folder, self._at, self._settings, Checkpoint())

    def finish(self) -> None:
        assert self._log is not None, "run first"
        if self._forgetting is not None:
            self._forgetting.finish()
        self._directory.add(self._log, self._identity.topic_id)
