"""The records of a consumer application: copies of partitions in generations, and their index.

    .lock                              one process at a time
    application.json                   whose data this is, and the generations: replaced as a whole
    index.db                           the index (`record_index`)
    generations/<n>/<topic>-<p>/       the copy of a partition in one generation: Kafka's segments

Rule 1: `store`, `reset`, `ready` and `void` return once what they did is durable; the caller answers the broker after.
Rule 2: what is served changes in one step: by the replacement of `application.json`.
Rule 3: the index follows the copies. Records are durable before they are indexed, and `catch_up` indexes what a crash,
        a full disk or a damaged index left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from qanat.app.edge.consuming.partition_copy import CopyRecord, PartitionCopy, remove_copy
from qanat.app.edge.consuming.record_index import DamagedIndexError, IndexRow, RecordIndex, TopicOf
from qanat.edge.generations import Generations
from qanat.edge.kept_records import Append, Place, Restart, plan
from qanat.log.atomic_files import read_whole, replace
from qanat.log.directories.partition_folders import parse_folder
from qanat.log.directory_state import DirectoryState
from qanat.model.errors import InvalidSettingError, StorageError

if TYPE_CHECKING:
    from qanat.log.files import Files
    from qanat.log.settings import LogSettings
    from qanat.model.ids import TopicPartition
    from qanat.wire.records import Record

FORMAT = 1
_STATE = "application.json"
CATCH_UP_BYTES = 1024 * 1024
"""How much of a copy is indexed in one slice of `catch_up`."""
_FORGOTTEN_AT_ONCE = 10_000

Key = tuple[int, "TopicPartition"]
"""A generation's number, and the partition."""


class Arrived(NamedTuple):
    """Records of a partition in the order of their offsets, and the refresh that they belong to, if any."""

    at: TopicPartition
    records: Sequence[CopyRecord]
    refresh: str = ""
    topic_id: str = ""
    """The topic that they are of, where the broker says so."""


class State(Struct, frozen=True):
    """The content of `application.json`."""

    format: int
    topics: list[str]
    group: str
    generations: Generations
    topic_ids: dict[str, str] = {}
    """The topic that each partition's records are of, by the partition's name."""


class RecordStore:
    """One data directory; belongs to one thread."""

    def __init__(
        self,
        files: Files,
        path: str,
        topics: Sequence[str],
        group: str,
        settings: LogSettings,
        open_index: Callable[[str], RecordIndex],
        *,
        remove_index: Callable[[str], None],
    ) -> None:
        """Open it; raises `StorageError` where it is in use, belongs to others, or cannot be read."""
        self._files = files
        self.path = path
        self._settings = settings
        self._open_index = open_index
        self._remove_index = remove_index
        self.state = DirectoryState()
        self.copies: dict[Key, PartitionCopy] = {}
        self._behind: list[Key] = []
        """Copies that may have more records than the index."""
        self._forgotten: list[tuple[TopicOf, int]] = []
        """What the index still has of generations that are gone."""
        self.stored = 0
        """Records that were stored since the start."""
        self.duplicates = 0
        """Records that came again and were not stored."""
        self.index_rebuilds = 0
        self._topic_ids: dict[str, str] = {}
        files.make_directory(path)
        self._lock = files.lock(f"{path}/.lock")
        try:
            self.generations = self._load(list(topics), group)
            self.index = self._opened_index()
            self._open_copies()
            self._compare_index()
        except BaseException:
            self._close_copies()
            self._lock.release()
            raise

    # What is stored

    def _load(self, topics: list[str], group: str) -> Generations:
        path = f"{self.path}/{_STATE}"
        written = read_whole(self._files, path)
        if written is None:
            if self._files.exists(f"{self.path}/generations"):
                raise StorageError(f"{path} is gone, but generations of data are there: put it back, or move them away")
            self._save(topics, group, Generations())
            return self.generations
        try:
            found = msgspec.json.decode(written, type=State)
        except msgspec.MsgspecError as fault:
            raise StorageError(f"{path} cannot be read: {fault}; restore it, or name another data directory") from None
        if found.format != FORMAT:
            raise StorageError(f"{path} has format {found.format}, and this version of Qanat reads {FORMAT}")
        if (found.topics, found.group) != (topics, group):
            raise InvalidSettingError(
                f"{self.path} holds the topics {', '.join(found.topics)} of {_group(found.group)}, not "
                f"{', '.join(topics)} of {_group(group)}: name another data directory (STORAGE_DATA_DIR)"
            )
        self._topics, self._group, self._topic_ids = topics, group, found.topic_ids
        return found.generations

    def _save(self, topics: list[str], group: str, generations: Generations) -> None:
        content = msgspec.json.encode(State(FORMAT, topics, group, generations, self._topic_ids))
        replace(self._files, f"{self.path}/{_STATE}", content + b"\n")
        self._topics, self._group, self.generations = topics, group, generations

    def _change(self, generations: Generations) -> None:
        """Make a change of the generations durable, and remove what it leaves behind."""
        if generations == self.generations:
            return
        self._save(self._topics, self._group, generations)
        for key in list(self.copies):
            if not generations.has(key[1], key[0]):
                self._drop(key)

    def _drop(self, key: Key) -> None:
        """Remove a copy; what a crash leaves of it is removed by the next start."""
        copy = self.copies.pop(key)
        if key in self._behind:
            self._behind.remove(key)
        self._forgotten.append(self.indexed_name(key))
        with suppress(StorageError):
            copy.remove()

    def _folder(self, number: int, at: TopicPartition) -> str:
        return f"{self.path}/generations/{number}/{at}"

    def _open_copies(self) -> None:
        top = f"{self.path}/generations"
        for name in self._files.list(top) if self._files.exists(top) else ():
            for entry in self._files.list(f"{top}/{name}") if name.isdecimal() else ():
                at = parse_folder(entry)
                if at is None:
                    continue
                if self.generations.has(at, int(name)):
                    self.copies[int(name), at] = self._opened_copy(int(name), at)
                else:
                    remove_copy(self._files, f"{top}/{name}/{entry}")

    def _opened_copy(self, number: int, at: TopicPartition) -> PartitionCopy:
        durable_to = self.index.indexed_to(*self.indexed_name((number, at))) or 0
        return PartitionCopy(self._files, self._folder(number, at), at, self.state, self._settings, durable_to)

    def _copy(self, number: int, at: TopicPartition) -> PartitionCopy:
        """A copy, made where there is none."""
        found = self.copies.get((number, at))
        if found is None:
            found = self.copies[number, at] = self._opened_copy(number, at)
            # The index may have rows of a copy of that name that was lost, or not yet forgotten.
            self._mark_behind((number, at))
        return found

    @property
    def served(self) -> dict[TopicPartition, PartitionCopy]:
        """What is served of each partition."""
        numbered = ((self.generations.held(at).served, at) for _, at in sorted(self.copies))
        return {key[1]: self.copies[key] for key in dict.fromkeys(numbered) if key in self.copies}

    @property
    def damage(self) -> str:
        """Which records that are served cannot be read any more, in one sentence; empty where there are none."""
        found = [
            f"{at} offsets {one.first_offset} to {one.next_offset - 1}"
            for at, copy in self.served.items()
            for one in copy.log.damage
        ]
        if not found:
            return ""
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        again = f"qanat push refresh {self._group}" if self._group else "an empty data directory"
        return f"records are damaged, and not answered any more: {', '.join(found[:3])}{more}; {again} gets them again"

    # What the broker sends

    def store(self, arrived: Iterable[Arrived], now_ms: int) -> int:
        """Store records that are new, durably; returns how many there were."""
        self.state.require_working()
        arrived = list(arrived)
        self._note_topics({one.at: one.topic_id for one in arrived if one.topic_id})
        stored = 0
        touched: dict[Key, list[Record] | None] = {}
        """The records that were appended to each copy; None where the index must read them."""
        for one in arrived:
            key = self._target(one.at, one.refresh)
            rows = self._append(self._copy(*key), one.records, now_ms)
            stored += len(rows or ())
            known = touched.get(key, [])
            touched[key] = None if known is None or rows is None else [*known, *rows]
        for key in touched:
            self.copies[key].flush()
        self.stored += stored
        for key, rows in touched.items():
            self._index_new(key, rows)
        return stored

    def _target(self, at: TopicPartition, refresh: str) -> Key:
        held = self.generations.held(at)
        if refresh and self.generations.filling_refresh(at) == refresh:
            return held.filling, at
        if not refresh and held.filling:
            # A record of what is served, while a refresh was under way: the broker has given that up.
            self._change(self.generations.cancelled(at))
        return held.served, at

    def _append(self, copy: PartitionCopy, records: Sequence[CopyRecord], now_ms: int) -> list[Record] | None:
        """Append what is new; None where the copy was changed otherwise, too."""
        steps = plan(copy.extent, (Place(one.record.offset, one.epoch) for one in records))
        appended: list[Record] = []
        for step in steps:
            if isinstance(step, Append):
                new = records[step.first : step.end]
                copy.append(new, now_ms)
                appended += [one.record for one in new]
                continue
            self._remove_from(copy, step.offset, is_restart=isinstance(step, Restart))
        self.duplicates += len(records) - len(appended)
        return appended if all(isinstance(step, Append) for step in steps) else None

    def _remove_from(self, copy: PartitionCopy, offset: int, *, is_restart: bool) -> None:
        """Remove a copy's records from an offset on, first from the index: it names only what there is."""
        key = self._key_of(copy)
        copy.flush()
        if self.generations.held(key[1]).served == key[0]:
            self._change(self.generations.voided(key[1]))
        start = 0 if is_restart else offset
        self.index.remove(TopicOf(key[0], key[1].topic), key[1].partition, (start, 2**63 - 1), offset)
        self._mark_behind(key)
        if is_restart:
            copy.restart(offset)
        else:
            copy.truncate(offset)

    def indexed_name(self, key: Key) -> tuple[TopicOf, int]:
        """What the index calls a copy."""
        return TopicOf(key[0], key[1].topic), key[1].partition

    def _key_of(self, copy: PartitionCopy) -> Key:
        return next(key for key, one in self.copies.items() if one is copy)

    def reset(self, refresh: str, ends: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Place]:
        """RESET of a refresh from one offset to another: where its partitions are to be continued."""
        self.state.require_working()
        self._change(self.generations.reset(refresh, ends))
        found = {}
        for at, (start, end) in ends.items():
            if self.generations.filling_refresh(at) != refresh:
                found[at] = Place(end, -1)  # It is served already.
                continue
            held = self._copy(self.generations.held(at).filling, at).extent
            if start <= held.start < held.end <= end:
                found[at] = Place(held.end, held.epoch_at(held.end - 1))
        return found

    def ready(self, refresh: str, partitions: Iterable[TopicPartition]) -> None:
        """READY of a refresh: what was filled is served from here on."""
        self.state.require_working()
        partitions = list(partitions)
        for at in partitions:
            if self.generations.filling_refresh(at) == refresh:
                self._copy(self.generations.held(at).filling, at).flush()
        self._change(self.generations.ready(refresh, partitions))

    def void(self, at: TopicPartition, offset: int, refresh: str = "") -> None:
        """The broker's log was truncated: what is held from an offset on is void."""
        self.state.require_working()
        held = self.generations.held(at)
        is_filling = bool(refresh) and self.generations.filling_refresh(at) == refresh
        copy = self.copies.get((held.filling if is_filling else held.served, at))
        if copy is not None and offset < copy.extent.end:
            self._remove_from(copy, offset, is_restart=offset <= copy.extent.start)

    def recreated(self, at: TopicPartition, topic_id: str) -> None:
        """The topic was deleted, and another one has its name: nothing that is held of the partition is of that one."""
        self.state.require_working()
        for (_, held), copy in list(self.copies.items()):
            if held == at and copy.extent.end > copy.extent.start:
                self._remove_from(copy, 0, is_restart=True)
        self._note_topics({at: topic_id})

    def _note_topics(self, ids: Mapping[TopicPartition, str]) -> None:
        """Make durable which topics the records are of, before any of them counts as stored."""
        new = {str(at): topic_id for at, topic_id in ids.items() if self._topic_ids.get(str(at)) != topic_id}
        if new:
            self._topic_ids = {**self._topic_ids, **new}
            self._save(self._topics, self._group, self.generations)

    def topic_id(self, at: TopicPartition) -> str:
        """The topic that the records of a partition are of; empty where that is not known."""
        return self._topic_ids.get(str(at), "")

    def positions(self) -> dict[TopicPartition, Place]:
        """Where an application without a group continues."""
        ends = {at: copy.extent for at, copy in self.served.items()}
        return {at: Place(held.end, held.epoch_at(held.end - 1)) for at, held in ends.items() if held.end > held.start}

    # The index

    def _opened_index(self) -> RecordIndex:
        """The index, or a new one where it cannot be read."""
        path = f"{self.path}/index.db"
        try:
            index = self._open_index(path)
            index.partitions()
        except DamagedIndexError:
            self.index_rebuilds += 1
            self._remove_index(path)
            index = self._open_index(path)
        return index

    def _compare_index(self) -> None:
        """Let `catch_up` compare all copies with the index."""
        known = {self.indexed_name(key) for key in self.copies}
        self._forgotten = [one for one in self.index.partitions() if one not in known]
        self._behind = sorted(self.copies)

    def rebuild_index(self) -> None:
        """Throw the index away; `catch_up` makes it again from the copies."""
        self.index.close()
        self.index_rebuilds += 1
        path = f"{self.path}/index.db"
        self._remove_index(path)
        self.index = self._open_index(path)
        self._compare_index()

    def _mark_behind(self, key: Key) -> None:
        if key not in self._behind:
            self._behind.append(key)

    def _index_new(self, key: Key, rows: list[Record] | None) -> None:
        """Index the records that were just appended, without reading them again where nothing else is missing."""
        copy, topic = self.copies[key], TopicOf(key[0], key[1].topic)
        if rows is None or key in self._behind:
            self._mark_behind(key)
            self._index_some(key)
            return
        if rows:
            self._mark_behind(key)  # Until it is done.
            self.index.add(topic, key[1].partition, map(_row, rows), copy.extent.end)
            self._behind.remove(key)

    @property
    def is_indexed(self) -> bool:
        """Whether the index has every record that is served."""
        return not any(self.generations.held(at).served == number for number, at in self._behind)

    @property
    def unindexed(self) -> int:
        """Offsets that the index does not have yet, at most."""
        left = 0
        for number, at in self._behind:
            held = self.copies[number, at].extent
            known = self.index.indexed_to(TopicOf(number, at.topic), at.partition)
            left += held.end - max(held.start, known or 0)
        return max(left, 0)

    def catch_up(self) -> bool:
        """Index some of what is missing, or forget some of what is gone; whether that was all."""
        if self._behind:
            self._index_some(self._behind[0])
        elif self._forgotten:
            topic, partition = self._forgotten[0]
            if self.index.forget(topic, partition, _FORGOTTEN_AT_ONCE):
                del self._forgotten[0]
        return not self._behind and not self._forgotten

    def _index_some(self, key: Key) -> bool:
        """Index a slice of a copy; whether it is complete."""
        copy, topic, partition = self.copies[key], TopicOf(key[0], key[1].topic), key[1].partition
        held = copy.extent
        known = self.index.indexed_to(topic, partition)
        if known is None or known > held.end:
            # The index is of another copy, or of one that was lost.
            self.index.remove(topic, partition, (0, 2**63 - 1), held.start)
            known = held.start
        start = max(known, held.start)
        if start < held.end:
            records, end = copy.read(start, CATCH_UP_BYTES)
            self.index.add(topic, partition, map(_row, records), end)
            start = end
        if start < held.end:
            return False
        self._behind.remove(key)
        return True

    def retain(self, now_ms: int) -> None:
        """Delete old segments by the settings, and their rows."""
        for (number, at), copy in self.copies.items():
            if copy.retain(now_ms):
                start, topic = copy.extent.start, TopicOf(number, at.topic)
                known = self.index.indexed_to(topic, at.partition)
                self.index.remove(topic, at.partition, (0, start), max(start, known or 0))

    # The end

    def _close_copies(self) -> None:
        for copy in self.copies.values():
            with suppress(StorageError):
                copy.close()

    def close(self) -> None:
        """Close everything. Nothing is left to flush."""
        self.index.close(is_clean=self.state.failure is None)
        self._close_copies()
        self._lock.release()


def _row(record: Record) -> IndexRow:
    return IndexRow(0, record.offset, record.timestamp, record.key, record.value is None)


def _group(group: str) -> str:
    return f"group {group}" if group else "no group"
