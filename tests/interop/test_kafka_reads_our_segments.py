"""Kafka's own tool reads what our log wrote: as written, after a crash, a truncation, a compaction."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop.log_writer import LogWriter
from tests.interop.scenarios import (
    ABORTING,
    COMMITTING,
    COMPACTED_MS,
    DELETE_RETENTION_MS,
    IDEMPOTENT,
    SCENARIOS,
    UNDECIDED,
)
from tools.kafka_dump import GAP, Dump, DumpedBatch, DumpedRecord, dump, dump_records, dumpable

from qanat.wire.compression import Codec, compress
from qanat.wire.records import Record

# The first run may have to fetch Kafka's jars, which has a limit of its own.
pytestmark = pytest.mark.long

COMPACTED = ("compacted", "compacted_twice")
WHOLE = [name for name in SCENARIOS if name not in COMPACTED]


@dataclass(frozen=True, slots=True)
class Judged:
    """Every scenario's log, and what Kafka says of all of them."""

    writers: dict[str, LogWriter]
    dump: Dump

    def batches(self, name: str) -> list[DumpedBatch]:
        return self.dump.log(self.writers[name].folder)

    def records(self, name: str) -> list[DumpedRecord]:
        return [record for batch in self.batches(name) for record in batch.records if record.marker is None]


@pytest.fixture(scope="session")
def judged(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All logs, and one JVM for all of them."""
    root = tmp_path_factory.mktemp("logs")
    writers = {name: scenario(root / name) for name, scenario in SCENARIOS.items()}
    return Judged(writers, dump_records(kafka_jars, dumpable(*(writer.folder for writer in writers.values()))))


def as_dumped(record: Record) -> tuple[object, ...]:
    """All that the tool prints of a record: of headers the names only."""
    key, value = record.key, record.value
    return (
        record.offset,
        record.timestamp,
        None if key is None else key.decode(),
        None if value is None else value.decode(),
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        ",".join(name for name, _ in record.headers),
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_record_comes_back_as_it_was_written(judged: Judged, name: str) -> None:
    expected = [as_dumped(record) for _, record in sorted(judged.writers[name].records.items())]

    dumped = [
        (r.offset, r.timestamp, r.key, r.value, r.key_size, r.value_size, r.header_keys) for r in judged.records(name)
    ]

    assert dumped == expected


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_batch_is_valid_and_in_its_codec(judged: Judged, name: str) -> None:
    batches = judged.batches(name)
    codecs = judged.writers[name].codecs

    assert {batch.facts["isvalid"] for batch in batches} == {True}
    assert {batch.facts["magic"] for batch in batches} == {2}
    for batch in batches:
        if batch.records and not batch.facts["isControl"]:
            assert batch.facts["compresscodec"] == codecs[batch.records[0].offset].name.lower()


def test_kafka_complains_of_nothing_but_the_gaps_that_compaction_leaves(judged: Judged) -> None:
    complaints = [problem for problem in judged.dump.problems if not problem.startswith(GAP)]
    gaps = [problem for name in WHOLE for problem in judged.dump.problems_of(judged.writers[name].folder)]

    assert complaints == []
    assert gaps == []


def test_kafka_complains_of_logs_and_indexes_that_were_tampered_with(
    judged: Judged, kafka_jars: Path, tmp_path: Path
) -> None:
    """So that the silence above means something."""
    folder = tmp_path / "tampered"
    shutil.copytree(judged.writers["plain"].folder, folder)
    index, *_ = sorted(folder.glob("*.index"))
    times = sorted(folder.glob("*.timeindex"))[1]
    last = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size][-1]
    index.write_bytes(b"\0\0\0\1" + index.read_bytes()[4:])
    times.write_bytes(times.read_bytes()[:7] + b"\1" + times.read_bytes()[8:])
    last.write_bytes(last.read_bytes()[:-1])

    problems = dump_records(kafka_jars, dumpable(folder)).problems

    assert any(problem.startswith("Mismatches in") and index.name in problem for problem in problems)
    assert any("timestamp" in problem and times.name in problem for problem in problems)
    assert any("invalid bytes at the end" in problem and last.name in problem for problem in problems)


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
def test_indexes_pass_the_checks_that_a_starting_broker_makes(judged: Judged, kafka_jars: Path, check: str) -> None:
    folders = [writer.folder for writer in judged.writers.values()]
    indexes = [path for path in dumpable(*folders) if path.suffix in (".index", ".timeindex")]

    assert dump(kafka_jars, indexes, check).problems == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_sealed_segments_have_index_entries(judged: Judged, name: str) -> None:
    folder = judged.writers[name].folder
    logs = [path for path in folder.glob("*.log") if path.stat().st_size]

    assert len(logs) > 1
    assert len(judged.dump.entries_of(folder, ".index")) > len(logs)
    assert len(judged.dump.entries_of(folder, ".timeindex")) > len(logs)


@pytest.mark.parametrize("name", WHOLE)
def test_markers_end_the_transactions_of_their_producers(judged: Judged, name: str) -> None:
    dumped = {
        record.offset: (batch.facts["producerId"], record.marker, record.coordinator_epoch)
        for batch in judged.batches(name)
        for record in batch.records
        if batch.facts["isControl"]
    }

    assert dumped == {
        offset: (ending.producer_id, "COMMIT" if ending.is_commit else "ABORT", ending.coordinator_epoch)
        for offset, ending in judged.writers[name].endings.items()
    }


@pytest.mark.parametrize("name", [*WHOLE, "compacted"])
def test_the_transaction_index_names_what_was_aborted(judged: Judged, name: str) -> None:
    writer = judged.writers[name]

    dumped = [
        (entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
        for entry in judged.dump.entries_of(writer.folder, ".txnindex")
    ]

    assert dumped == writer.aborted_transactions


@pytest.mark.parametrize("name", ["transactions", "forgetful", "compacted", "compacted_twice"])
def test_a_producer_snapshot_says_where_each_producer_stands(judged: Judged, name: str) -> None:
    """Kafka keeps the last entry of a producer, as its state manager does when it loads the file."""
    writer = judged.writers[name]
    newest = max(path for path in judged.dump.entries if path.parent == writer.folder and path.suffix == ".snapshot")

    dumped = {entry["producerId"]: entry for entry in judged.dump.entries[newest]}

    assert dumped.keys() == writer.producers.keys()
    for producer in writer.producers.values():
        entry = dumped[producer.id]
        assert entry["producerEpoch"] == producer.epoch
        assert entry["lastSequence"] == producer.sequence - 1
        assert entry["lastOffset"] == producer.last_offset
        assert entry["currentTxnFirstOffset"] == (producer.open_offsets[0] if producer.open_offsets else None)
        has_marker = any(ending.producer_id == producer.id for ending in writer.endings.values())
        assert entry["coordinatorEpoch"] == (producer.coordinator_epoch if has_marker else -1)


def test_sequences_run_on_over_batches(judged: Judged) -> None:
    for producer_id in (IDEMPOTENT, COMMITTING, ABORTING, UNDECIDED):
        batches = [
            batch
            for batch in judged.batches("transactions")
            if batch.facts["producerId"] == producer_id and not batch.facts["isControl"]
        ]
        sequences = [record.sequence for batch in batches for record in batch.records]

        assert sequences == list(range(judged.writers["transactions"].producers[producer_id].sequence))
        assert {batch.facts["isTransactional"] for batch in batches} == {producer_id != IDEMPOTENT}


def test_tombstones_have_a_delete_horizon_after_the_first_pass(judged: Judged) -> None:
    horizons = {
        batch.facts["deleteHorizonMs"]
        for batch in judged.batches("compacted")
        if any(record.value is None for record in batch.records if record.marker is None)
    }
    after_second_pass = [record for record in judged.records("compacted_twice") if record.value is None]

    assert horizons == {COMPACTED_MS + DELETE_RETENTION_MS}
    assert after_second_pass == []


@pytest.mark.parametrize("name", COMPACTED)
def test_a_producers_last_batch_stays_when_all_its_records_are_gone(judged: Judged, name: str) -> None:
    emptied = {batch.facts["producerId"]: batch.facts for batch in judged.batches(name) if batch.facts["count"] == 0}
    producers = judged.writers[name].producers

    assert {IDEMPOTENT, ABORTING} <= emptied.keys()
    for producer_id in (IDEMPOTENT, ABORTING):
        assert emptied[producer_id]["lastSequence"] == producers[producer_id].sequence - 1
        assert emptied[producer_id]["lastOffset"] == producers[producer_id].last_offset


@pytest.mark.parametrize("name", SCENARIOS)
def test_batches_carry_the_leader_epochs_of_the_checkpoint(judged: Judged, name: str) -> None:
    """The checkpoint's own format is compared with Kafka's in `test_shared_log`."""
    version, count, *lines = (judged.writers[name].folder / "leader-epoch-checkpoint").read_text().splitlines()
    starts = [tuple(map(int, line.split())) for line in lines]

    first_seen: dict[object, object] = {}
    for batch in judged.batches(name):
        first_seen.setdefault(batch.facts["partitionLeaderEpoch"], batch.facts["baseOffset"])

    assert (version, count) == ("0", str(len(lines)))
    assert [epoch for epoch, _ in starts] == list(first_seen)
    if name not in COMPACTED:
        assert starts == list(first_seen.items())


def test_our_lz4_frames_are_in_javas_dialect() -> None:
    """Needs no Kafka: version 1, and blocks that do not depend on each other, which is all that Java reads."""
    for size in (0, 100, 200_000):
        flags = compress(Codec.LZ4, b"0123456789" * (size // 10))[4]

        assert flags >> 6 == 1
        assert flags & 0x20
