"""Whether a changed pipeline fits its checkpoint, and a new checkpoint at the old offsets; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from qanat.app.main import run
from qanat.connection.cluster import Cluster
from qanat.connection.committed import commit_offsets
from qanat.connection.deadline import Deadline
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.pipelines.definition import Definition
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.runs.checkpoint_notes import doubts, misfits, note_of
from qanat.spark.pipelines.runs.checkpoints import check_fit, old_offsets, read_progress, start_at
from qanat.spark.pipelines.runs.narrowing import narrowed
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline
from qanat.spark.reads.offset_lookup import Lookups
from qanat.testing import EmbeddedBroker

ORDERS = """\
name: orders
checkpoint: CHECKPOINT
sources:
  orders: {topics: [TOPICS], schema: "COLUMNS"}
  other: {topic: other}
steps:
  picked: {sql: "select record.* from orders"}
  once: {from: picked, watermark: {column: at, delay: 1 minute}, distinct: [BY]}
  counted: {sql: "select id, count(*) as n from once group by id"}
sinks:
  out: {from: counted, SINK}
  second: {from: other, topic: second}
"""


def defined(folder: Path | str = "x", **changes: str) -> Definition:
    words = {"topics": "a, b", "columns": "id string, amount double", "by": "id", "sink": "topic: out"}
    text = ORDERS.replace("CHECKPOINT", str(folder))
    for word, value in words.items():
        text = text.replace(word.upper(), changes.pop(word, value))
    for old, new in changes.items():
        text = text.replace(old, new)
    found = yaml_pipeline(text).define
    assert found is not None
    return found({})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"by": "id, amount"}, "step once keeps other state: distinct or windows changed"),
        ({"topics": "a, c"}, "source orders read a, b and now reads a, c"),
        (
            {"columns": "id string, amount float"},
            "the schema of source orders narrows: column amount was double and is",
        ),
        ({"columns": "id string"}, "the schema of source orders narrows: column amount is gone"),
        ({"sink": "topic: out, mode: update"}, "it wrote topic in mode append and now writes topic in mode update"),
        ({"sink": "parquet: /lake"}, "it wrote topic in mode append and now writes parquet in mode append"),
        ({"from once group by": "from once join other on true group by"}, "it read a, b and now reads a, b, other"),
    ],
)
def test_a_change_that_does_not_fit_is_named(changes: dict[str, str], reason: str) -> None:
    found = misfits(note_of(defined(), "out"), note_of(defined(**changes), "out"))

    assert len(found) == 1
    assert found[0].startswith(reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"topics": "a, b, c"},
        {"delay: 1 minute": "delay: 2 minutes"},
        {"columns": "id string, amount double, note string"},
        {"sink": "topic: elsewhere"},
        {"topic: second": "topic: third"},
    ],
)
def test_a_change_that_fits_is_not(changes: dict[str, str]) -> None:
    assert misfits(note_of(defined(), "out"), note_of(defined(**changes), "out")) == []


def test_sql_that_keeps_state_is_left_to_spark() -> None:
    before, after = note_of(defined(), "out"), note_of(defined(**{"count(*) as n": "sum(amount) as n"}), "out")

    assert misfits(before, after) == []
    assert doubts(before, after) == [
        "the SQL of step counted changed, and it keeps state: Spark says at the start whether it fits"
    ]
    assert doubts(before, before) == []


@pytest.mark.parametrize(
    ("before", "after", "is_narrower"),
    [
        ("int", "bigint", False),
        ("bigint", "int", True),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("decimal(10,2)", "decimal(10,4)", True),
        ("struct<a:int>", "struct<a:int,b:int>", False),
        ("string", "double", True),
        ("double", "string", False),
    ],
)
def test_a_narrower_type_is_known(before: str, after: str, is_narrower: bool) -> None:
    assert bool(narrowed([("x", before)], [("x", after)])) is is_narrower


def write_checkpoint(
    folder: Path, sink: str, planned: list[dict[str, dict[str, int]]], committed: int, query: str = "query-1"
) -> None:
    """Files as Spark writes them."""
    for below in ("offsets", "commits"):
        (folder / sink / below).mkdir(parents=True)
    (folder / sink / "metadata").write_text(json.dumps({"id": query}))
    for number, offsets in enumerate(planned):
        (folder / sink / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offsets)}")
    for number in range(committed):
        (folder / sink / "commits" / str(number)).write_text("v1\n{}")


def test_progress_is_read_from_sparks_files(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "out", [{"a": {"0": 5}}, {"a": {"0": 9}}], committed=1)
    found = read_progress(str(tmp_path), "out")

    assert found is not None
    assert (found.query_id, found.batch, found.is_done) == ("query-1", 1, False)
    assert found.offsets == {"a": {"0": 5}}
    assert read_progress(str(tmp_path), "second") is None


def test_a_misfit_stops_the_start_with_one_sentence_and_changes_nothing(tmp_path: Path) -> None:
    check_fit(defined(tmp_path), str(tmp_path), "out", [("id", "string"), ("n", "bigint")])
    check_fit(defined(tmp_path, by="amount"), str(tmp_path), "out", [])  # Without progress, nothing depends on it.
    check_fit(defined(tmp_path), str(tmp_path), "out", [("id", "string"), ("n", "bigint")])
    write_checkpoint(tmp_path, "out", [{"a": {"0": 5}}], committed=1)
    note = (tmp_path / "_qanat" / "out.json").read_bytes()
    with pytest.raises(PipelineError) as narrower:
        check_fit(defined(tmp_path), str(tmp_path), "out", [("id", "string"), ("n", "int")])
    with pytest.raises(PipelineError) as fault:
        check_fit(defined(tmp_path, by="amount"), str(tmp_path), "out", [("id", "string"), ("n", "bigint")])

    assert "its rows narrow: column n was bigint and is int" in str(narrower.value)
    assert str(fault.value) == (
        f"pipeline orders, sink out does not fit its checkpoint {tmp_path}: step once keeps other state: distinct or "
        "windows changed; nothing was changed. Undo the change, or begin a new checkpoint at the old offsets, without "
        f"the old state: --checkpoint NEW --from-checkpoint {tmp_path}"
    )
    assert (tmp_path / "_qanat" / "out.json").read_bytes() == note


def test_a_lake_of_another_checkpoint_is_refused_before_rows_are_skipped(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (lake / "_spark_metadata").mkdir(parents=True)
    (lake / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(PipelineError, match="was written from another checkpoint, and Spark would skip new rows"):
        check_fit(defined(tmp_path, sink=f"parquet: {lake}"), str(tmp_path / "new"), "out", [])


def test_check_says_whether_a_pipeline_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders.yaml"
    text = f"""\
name: orders
checkpoint: {tmp_path / "checkpoint"}
sources: {{a: {{topic: a}}}}
steps: {{once: {{from: a, watermark: {{column: timestamp, delay: 1 minute}}, distinct: [key]}}}}
sinks: {{out: {{from: once, topic: out}}}}
"""
    path.write_text(text)
    assert run(["pipeline", "check", str(path)]) == 0
    assert capsys.readouterr().out == "orders can be run: 1 source, 1 step, 1 sink\n"
    write_checkpoint(tmp_path / "checkpoint", "out", [{"a": {"0": 5}}], committed=1)
    check = yaml_pipeline(text).define
    assert check is not None
    assert run(["pipeline", "check", str(path)]) == 0
    assert "sink out: its checkpoint (micro-batch 0, a 0:5) does not say what it belongs to" in capsys.readouterr().out
    check_fit(check({}), str(tmp_path / "checkpoint"), "out", [])
    assert run(["pipeline", "check", str(path)]) == 0
    assert "sink out fits its checkpoint: micro-batch 0, a 0:5\n" in capsys.readouterr().out
    path.write_text(text.replace("[key]", "[value]"))
    assert run(["pipeline", "check", str(path)]) == 1
    printed = capsys.readouterr().out

    assert "sink out does not fit its checkpoint (micro-batch 0, a 0:5): step once keeps other state" in printed
    assert f"--checkpoint NEW --from-checkpoint {tmp_path / 'checkpoint'}" in printed


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic("a", partitions=2)
        running.create_topic("b", partitions=1)
        yield running


def test_old_offsets_count_a_micro_batch_that_its_transaction_wrote(broker: EmbeddedBroker, tmp_path: Path) -> None:
    access = Access(broker.bootstrap_servers)
    write_checkpoint(tmp_path, "out", [{"a": {"0": 5}}, {"a": {"0": 9}}], committed=1)
    assert old_offsets(defined(), str(tmp_path), "out", access) == {"a": {"0": 5}}

    async def mark(cluster: Cluster, deadline: Deadline) -> None:
        await commit_offsets(cluster, "qanat-spark-query-1", {TopicPartition("a", 0): 1}, deadline)

    with Lookups(access) as lookups:
        lookups.run(mark)

    assert old_offsets(defined(), str(tmp_path), "out", access) == {"a": {"0": 9}}
    assert old_offsets(defined(), str(tmp_path), "second", access) is None


def test_a_checkpoint_without_a_finished_micro_batch_has_no_old_offsets(broker: EmbeddedBroker, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "second", [{"other": {"0": 5}}], committed=0, query="query-2")
    with pytest.raises(PipelineError, match="has no finished micro-batch of sink second"):
        old_offsets(defined(), str(tmp_path), "second", Access(broker.bootstrap_servers))


def test_a_source_starts_at_old_offsets_and_new_partitions_at_their_first_record(broker: EmbeddedBroker) -> None:
    access = Access(broker.bootstrap_servers)
    source = defined().sources["orders"]
    found = start_at(source, {"a": {"0": 5}}, access)

    assert found is not None
    assert json.loads(found) == {"a": {"0": 5, "1": -2}, "b": {"0": -2}}
    assert start_at(source, {"elsewhere": {"0": 5}}, access) is None
