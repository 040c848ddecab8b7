"""Faults of machines: each is one sentence with the remedy, and its query continues from the checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from qanat.spark.pipelines import query, query_watch
from qanat.spark.pipelines.back_off import TRIES
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.query import Query
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_faults import MachineFaultError

STAGE = "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 "
TRACE = "\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)\nDriver: SQLSTATE: XXKST"
FAULTS = {
    "a disk is full": "Job aborted: java.io.IOException: No space left on device\n\tat java.io.FileOutputStream",
    "a disk is full: make room": f"{STAGE}java.nio.file.FileSystemException: /c/1.delta: Disk quota exceeded{TRACE}",
    "an executor was lost: see why in its log": f"{STAGE}failed 4 times, most recent failure: Lost task 0.3 "
    f"in stage 3.0 (TID 9) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the "
    f"running tasks) Reason: Command exited with code 137{TRACE}",
    "Java's memory ran out: give it more": f"{STAGE}java.lang.OutOfMemoryError: Java heap space{TRACE}",
    "a Python process of a task ended": f"{STAGE}Python worker exited unexpectedly (crashed): EOFError{TRACE}",
    "the leader of a partition moved": "StagedRowsLostError: rows of batch 3 are not at its leader: it moved",
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_a_fault_is_one_sentence_with_the_remedy(sentence: str) -> None:
    said = spark_reason(Exception(FAULTS[sentence]))

    assert said.startswith(sentence)
    assert said.endswith("; run it again, it continues where it was")
    assert "\n" not in said


def test_a_broken_connection_is_known_by_its_cause() -> None:
    fault = Exception("Connection reset\n=== Streaming Query ===\nIdentifier: archive")
    assert spark_reason(fault) == "Connection reset"

    fault._cause = Exception("java.net.SocketException: Connection reset")  # type: ignore[attr-defined]

    assert spark_reason(fault).startswith("a Python process that plans micro-batches ended")


class Spark:
    """Starts queries, and has a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_progress: bool = False) -> None:
        self.now_s, self.started = 0.0, 0
        self._progress = {"batchId": 0} if has_progress else None
        monkeypatch.setattr(query, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def start(self) -> Any:
        self.started += 1
        return SimpleNamespace(id="1", name="big-out", lastProgress=self._progress)


def waits_s(spark: Spark, failed: Query, times: int) -> list[int]:
    """How long it waits after each failure, in a run that looks every tenth of a second."""
    waited = []
    for _ in range(times):
        before_s, restarts = spark.now_s, failed.restarts
        while failed.restarts == restarts:
            assert failed.resumes_after(Exception("No space left on device"))
            spark.now_s += 0.1
        waited.append(round(spark.now_s - before_s - 0.1))
    return waited


def test_a_query_is_started_again_with_longer_and_longer_waits_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark(monkeypatch)
    failed = Query("pipeline big, sink out", spark.start)

    assert waits_s(spark, failed, TRIES - 1) == [1, 2, 4, 8, 16, 32, 60]
    assert not failed.resumes_after(Exception("No space left on device"))
    assert spark.started == TRIES


def test_progress_makes_the_waits_short_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark(monkeypatch, has_progress=True)

    assert waits_s(spark, Query("pipeline big, sink out", spark.start), TRIES + 2) == [1] * (TRIES + 2)


def test_a_users_mistake_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark(monkeypatch)

    assert not Query("pipeline big, sink out", spark.start).resumes_after(Exception("[UNRESOLVED_COLUMN] amuont"))
    assert spark.started == 1


def test_a_query_that_does_not_start_again_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    spark = Spark(monkeypatch)
    failed = Query("pipeline big, sink out", spark.start)

    def refuse() -> Any:
        raise PySparkException(f"[PATH_NOT_FOUND] Path does not exist: /gone.{TRACE}")

    failed._start = refuse
    spark.now_s = -1.0
    assert failed.resumes_after(Exception("No space left on device"))
    spark.now_s = 1.0
    with pytest.raises(
        PipelineError, match=r"^pipeline big, sink out: \[PATH_NOT_FOUND\] Path does not exist: /gone\.$"
    ):
        failed.resumes_after(Exception("No space left on device"))


def failing_stages(fault: str, *, continues_by_launch: bool) -> Any:
    """The stages of a pipeline whose only query has failed."""
    yield [
        SimpleNamespace(
            id="1",
            name="archive",
            restarts=0,
            isActive=False,
            lastProgress=None,
            exception=lambda: Exception(fault),
            resumes_after=lambda _: False,
            continues_by_launch=continues_by_launch,
            stop=lambda: None,
        )
    ]


def test_a_query_that_keeps_its_position_at_its_target_is_launched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_watch, "LOOK_EVERY_S", 0.0)

    with pytest.raises(MachineFaultError, match=r"^archive: a Python process of a task ended"):
        watch(failing_stages("Python worker exited unexpectedly", continues_by_launch=True), Stop())
    with pytest.raises(PipelineError, match=r"^archive failed: there is no amuont"):
        watch(failing_stages("there is no amuont", continues_by_launch=True), Stop())
    with pytest.raises(PipelineError, match=r"^archive failed: a disk is full"):
        watch(failing_stages("No space left on device", continues_by_launch=False), Stop())
