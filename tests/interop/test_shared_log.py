"""A running Kafka serves segments that we wrote, and we open segments that it wrote."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop.kafka_clients import consume, create_topics, produce, produce_in_transaction
from tests.interop.log_writer import LIMIT, NOW, LogWriter, some_records
from tests.interop.scenarios import SCENARIOS
from tools.kafka_broker import KafkaBroker

from qanat.adapters.os_files import OsFiles
from qanat.log.leader_epochs import LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments.aborted_index import decode_aborted
from qanat.log.settings import LogSettings
from qanat.model.ids import TopicPartition
from qanat.wire.compression import Codec
from qanat.wire.records import Record, decode_records

# The first run may have to fetch Kafka's jars, which has a limit of its own.
pytestmark = pytest.mark.long

THEIRS = "theirs"
OURS = ["stamped", "transactions", "recovered", "forgetful", "compacted", "compacted_twice"]
"""Scenarios under the first leader's epoch, which is the one that Kafka's controller knows of."""
LATER = Record(0, NOW, b"later", b"Kafka wrote on", ())


@dataclass(frozen=True, slots=True)
class Shared:
    """What came of it all, with the broker stopped."""

    folder: Path
    """Kafka's data folder: its own topic, and ours with one record more."""
    sent: list[Record]
    """What was sent to Kafka's own topic, with aborted records."""
    writers: dict[str, LogWriter]
    uncommitted: dict[str, list[Record]]
    committed: dict[str, list[Record]]


@pytest.fixture(scope="session")
def shared(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    root = tmp_path_factory.mktemp("kafka")
    writers = {name: SCENARIOS[name](root / name) for name in OURS}
    broker = KafkaBroker(kafka_jars, root)
    with broker.running():
        create_topics(broker.address, [THEIRS, *OURS])
        sent = _written_by_kafka(broker.address)
    for name, writer in writers.items():
        _exchange(broker.data / f"{name}-0", writer.folder)
    with broker.running():
        uncommitted = {name: consume(broker.address, name, "read_uncommitted") for name in OURS}
        committed = {name: consume(broker.address, name, "read_committed") for name in OURS}
        for name in OURS:
            produce(broker.address, name, [LATER])
    return Shared(broker.data, sent, writers, uncommitted, committed)


def _written_by_kafka(address: str) -> list[Record]:
    sent: list[Record] = []
    for codec in Codec:
        records = some_records(20, NOW + codec * 1000, seed=codec)
        options = {"compression.type": codec.name.lower(), "enable.idempotence": codec is Codec.ZSTD}
        produce(address, THEIRS, records, **options)
        sent += records
    for is_commit in (False, True):
        records = some_records(5, NOW + 10_000)
        produce_in_transaction(address, THEIRS, records, is_commit=is_commit)
        sent += records
    return sent


def _exchange(theirs: Path, ours: Path) -> None:
    """Put our files in the place of Kafka's; the topic's identity stays."""
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in ours.iterdir():
        shutil.copy(path, theirs)


def opened(folder: Path, copy: Path) -> PartitionLog:
    """Our log on a copy of a folder of Kafka's."""
    shutil.copytree(folder, copy)
    return open_log(OsFiles(), str(copy), TopicPartition("t", 0), LogSettings(), Checkpoint())


def data_records(log: PartitionLog) -> list[Record]:
    """Every record, without markers."""
    return [
        record
        for segment in log.segments
        for position, header in segment.batches()
        if not header.is_control
        for record in decode_records(segment.batch(position), LIMIT)
    ]


def without_offset(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


@pytest.mark.parametrize("name", OURS)
def test_kafka_serves_every_record_that_we_wrote(shared: Shared, name: str) -> None:
    assert shared.uncommitted[name] == [record for _, record in sorted(shared.writers[name].records.items())]


@pytest.mark.parametrize("name", OURS)
def test_kafka_holds_back_what_was_aborted_or_is_undecided(shared: Shared, name: str) -> None:
    writer = shared.writers[name]
    undecided = [offset for producer in writer.producers.values() for offset in producer.open_offsets]
    stable = min(undecided, default=writer.log.end_offset)

    assert shared.committed[name] == [
        record for at, record in sorted(writer.records.items()) if at not in writer.aborted and at < stable
    ]


@pytest.mark.parametrize("name", OURS)
def test_kafka_writes_on_where_we_stopped_and_we_open_that(shared: Shared, name: str, tmp_path: Path) -> None:
    writer = shared.writers[name]
    log = opened(shared.folder / f"{name}-0", tmp_path / "copy")

    *before, last = data_records(log)

    assert not log.damage
    assert before == [record for _, record in sorted(writer.records.items())]
    assert (last.offset, last.key, last.value) == (writer.log.end_offset, LATER.key, LATER.value)
    assert log.producers.states.keys() >= writer.producers.keys()


def test_we_open_what_kafka_wrote(shared: Shared, tmp_path: Path) -> None:
    log = opened(shared.folder / f"{THEIRS}-0", tmp_path / "copy")

    assert not log.damage
    assert without_offset(data_records(log)) == without_offset(shared.sent)
    assert {header.codec for segment in log.segments for _, header in segment.batches()} == set(Codec)
    assert log.read(0, LIMIT).size == log.size


def test_we_find_the_same_aborted_transactions_as_kafka(shared: Shared, tmp_path: Path) -> None:
    folder = shared.folder / f"{THEIRS}-0"
    log = opened(folder, tmp_path / "copy")

    theirs = [entry for path in sorted(folder.glob("*.txnindex")) for entry in decode_aborted(path.read_bytes())]

    assert len(theirs) == 1
    assert log.aborted_transactions(0, log.end_offset) == theirs


def test_we_find_the_same_producers_as_kafka(shared: Shared, tmp_path: Path) -> None:
    """Kafka remembers one batch of a producer over a restart, we find all: the last is the same."""
    folder = shared.folder / f"{THEIRS}-0"
    log = opened(folder, tmp_path / "copy")

    theirs = decode_snapshot(max(folder.glob("*.snapshot")).read_bytes())

    assert theirs is not None
    assert theirs.states.keys() == log.producers.states.keys()
    assert len(theirs.states) == 3
    for producer_id, state in theirs.states.items():
        ours = log.producers.states[producer_id]
        assert (ours.epoch, ours.coordinator_epoch) == (state.epoch, state.coordinator_epoch)
        assert [batch[:3] for batch in ours.batches[-1:]] == [batch[:3] for batch in state.batches[-1:]]


@pytest.mark.parametrize("topic", [THEIRS, *OURS])
def test_leader_epochs_are_kept_in_the_same_format(shared: Shared, topic: str) -> None:
    content = (shared.folder / f"{topic}-0" / "leader-epoch-checkpoint").read_bytes()

    epochs = LeaderEpochs.decode(content)

    assert epochs is not None
    assert epochs.encode() == content
    assert epochs.entries[0] == (0, 0)
