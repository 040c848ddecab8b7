"""T1: a log does what a plain list would do, whatever comes in whatever order, on a simulated and on a real disk.

`make test` runs 100 examples, and 20 on the real disk, whose fsync takes its time;
QANAT_MODEL_EXAMPLES=20000 is for the night.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from verify.logs.crash_sweep import VARIANTS, crashed
from verify.logs.log_checks import check_bounds, check_recovered, stored_batches
from verify.logs.log_rig import AT, Content, LogRig

from qanat.adapters.os_files import OsFiles
from qanat.log.files import Files
from qanat.log.producers import Producers
from qanat.log.recovery.log_recovery import open_log
from qanat.log.settings import CleanupPolicy, LogSettings
from qanat.log.timestamp_lookup import find_timestamp
from qanat.model.errors import OffsetOutOfRangeError
from qanat.testing.simulation.disk import SimDisk
from qanat.wire.batch_header import BatchHeader, read_header
from qanat.wire.compression import Codec

EXAMPLES = int(os.environ.get("QANAT_MODEL_EXAMPLES", "100"))
LIMIT_BYTES = 1 << 20
FEWEST_BYTES = 1

contents = st.builds(
    Content,
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"c"]), st.none() | st.binary(max_size=120), st.sampled_from([0, 0, 90])
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
    st.sampled_from(list(Codec)),
)
clients = st.sampled_from([1, 2, 3])
places = st.floats(0, 1)
"""Somewhere in the log: 0 is its start, 1 its end."""
log_settings = st.builds(
    LogSettings,
    segment_bytes=st.sampled_from([800, 1024, 4096]),
    index_interval_bytes=st.sampled_from([0, 100, 4096]),
    cleanup_policy=st.sampled_from(CleanupPolicy),
    retention_ms=st.sampled_from([-1, 1_000]),
    retention_bytes=st.sampled_from([-1, 2_500]),
    delete_retention_ms=st.sampled_from([0, 200]),
)


def batches_in(data: bytes) -> Iterator[BatchHeader]:
    """The headers of whole batches."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        yield header
        position += header.size
    assert position == len(data), "a batch is cut"


class LogMachine(RuleBasedStateMachine):
    """Acts on a rig; the rig compares answers, the invariants compare everything else."""

    rig: LogRig

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[memoryview, bytes]] = []

    def new_files(self) -> tuple[Files, str]:
        return SimDisk(1), "/log"

    @initialize(settings=log_settings)
    def open(self, settings: LogSettings) -> None:
        files, directory = self.new_files()
        self.rig = LogRig(files, settings, directory)

    def offset(self, place: float) -> int:
        log = self.rig.log
        return log.log_start_offset + round(place * (log.end_offset - log.log_start_offset))

    @rule(content=contents, later_ms=st.sampled_from([0, 1, 300]))
    def append(self, content: Content, later_ms: int) -> None:
        self.rig.now_ms += later_ms
        self.rig.append(content)

    @rule(client=clients, content=contents, is_transactional=st.booleans())
    def append_as(self, client: int, content: Content, is_transactional: bool) -> None:
        self.rig.append_as(client, content, is_transactional=is_transactional)

    @rule(client=clients)
    def retry(self, client: int) -> None:
        end_offset = self.rig.log.end_offset
        self.rig.retry(client)
        assert self.rig.log.end_offset == end_offset

    @rule(client=clients, is_commit=st.booleans(), bumps_epoch=st.booleans())
    def end_transaction(self, client: int, is_commit: bool, bumps_epoch: bool) -> None:
        self.rig.end_transaction(client, is_commit=is_commit, bumps_epoch=bumps_epoch)

    @rule(is_entered=st.booleans())
    def change_leader(self, is_entered: bool) -> None:
        self.rig.change_leader(is_entered=is_entered)

    @rule()
    def flush(self) -> None:
        self.rig.flush()
        assert self.rig.log.flushed_offset == self.rig.log.end_offset

    @rule()
    def roll(self) -> None:
        self.rig.roll()

    @rule(place=places)
    def replicate(self, place: float) -> None:
        self.rig.replicate(max(self.offset(place), self.rig.log.flushed_offset))

    @rule(place=places)
    def delete_records(self, place: float) -> None:
        self.rig.delete_records(self.offset(place))

    @rule()
    def retain(self) -> None:
        self.rig.retain()

    @precondition(lambda self: self.rig.settings.is_compacted)
    @rule()
    def compact(self) -> None:
        self.rig.flush()
        self.rig.compact()

    @rule(place=places)
    def truncate(self, place: float) -> None:
        self.rig.truncate(self.offset(place))

    @rule()
    def truncate_to_epoch(self) -> None:
        self.rig.truncate_to_epoch(max(self.rig.leader_epoch - 1, 0))

    @rule(ahead=st.sampled_from([0, 7]))
    def restart(self, ahead: int) -> None:
        self.rig.restart(self.rig.log.end_offset + ahead)

    @rule(place=places, max_bytes=st.sampled_from([FEWEST_BYTES, 100, 700, 1 << 20]), bound=places)
    def read(self, place: float, max_bytes: int, bound: float) -> None:
        """Whole batches from the one that holds the offset on, none beyond the bound, none twice, none left out."""
        log, offset, end_offset = self.rig.log, self.offset(place), self.offset(bound)
        found = log.read(offset, max_bytes, end_offset)
        views = found.views()
        self.held += [(view, bytes(view)) for view in views]
        data = b"".join(views)
        seen = [header for header, _ in stored_batches(log) if header.next_offset > offset]
        expected = [header for header in seen if header.next_offset <= end_offset]
        returned = list(batches_in(data))
        assert returned == expected[: len(returned)]
        assert len(data) <= max(max_bytes, expected[0].size if expected else 0)
        assert bool(data) == bool(expected)
        assert found.next_offset >= offset
        passed = [header for header in seen if header.next_offset <= found.next_offset]
        assert passed == returned, "what is passed over was returned"

    @rule()
    def read_outside(self) -> None:
        log = self.rig.log
        for offset in (log.log_start_offset - 1, log.end_offset + 1):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset, 100)

    @rule(ago_ms=st.integers(-50, 1_000))
    def look_up(self, ago_ms: int) -> None:
        timestamp = self.rig.now_ms - ago_ms
        log = self.rig.log
        entries = {entry.base_offset: entry for entry in self.rig.history.entries}
        gone = self.rig.history.removable
        expected = [
            record.offset
            for header, _ in stored_batches(log)
            for record in entries[header.base_offset].records
            if record.timestamp >= timestamp and record.offset >= log.log_start_offset and record.offset not in gone
        ]
        found = find_timestamp(log, timestamp, LIMIT_BYTES)
        if not gone:
            assert (found.offset if found else None) == (expected[0] if expected else None)
        elif expected:
            assert found is not None
            assert found.offset <= expected[0]

    @rule()
    def reopen(self) -> None:
        self.rig.reopen()

    @invariant()
    def holds_what_it_was_told(self) -> None:
        rig, log = self.rig, self.rig.log
        check_bounds(log)
        check_recovered(log, rig.history)
        assert log.end_offset == rig.history.end

    @invariant()
    def last_stable_offset_is_before_every_open_transaction(self) -> None:
        log, history = self.rig.log, self.rig.history
        producers, undecided = Producers(), [log.high_watermark]
        for entry in history.entries:
            completed = producers.replay(entry.header, entry.content, 0)
            if completed is not None and completed.last_offset >= log.high_watermark:
                undecided.append(completed.first_offset)
        undecided += [one.transaction_first_offset for one in producers.states.values()]
        expected = max(min(one for one in undecided if one >= 0), log.log_start_offset)
        assert log.last_stable_offset == expected

    @invariant()
    def views_never_change(self) -> None:
        for view, content in self.held[-20:]:
            assert view == content


class SimulatedLogMachine(LogMachine):
    """With power losses."""

    @rule(variant=st.sampled_from(VARIANTS), with_checkpoint=st.booleans())
    def crash(self, variant: str, with_checkpoint: bool) -> None:
        rig = self.rig
        if with_checkpoint:
            rig.take_checkpoint()
        assert isinstance(rig.files, SimDisk)
        rig.files = crashed(rig.files, variant)
        rig.log = open_log(rig.files, rig.directory, AT, rig.settings, rig.checkpoint)
        check_recovered(rig.log, rig.history)
        rig.after_crash()


class RealLogMachine(LogMachine):
    """On files of the operating system."""

    def new_files(self) -> tuple[Files, str]:
        self.folder = tempfile.mkdtemp()
        return OsFiles(max_open=64), f"{self.folder}/log"

    def teardown(self) -> None:
        self.held.clear()
        if hasattr(self, "rig"):
            for segment in self.rig.log.segments:
                segment.close()
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


PROFILE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestSimulatedLog = SimulatedLogMachine.TestCase
TestSimulatedLog.settings = PROFILE
TestRealLog = RealLogMachine.TestCase
TestRealLog.settings = settings(PROFILE, max_examples=max(EXAMPLES // 5, 1))
