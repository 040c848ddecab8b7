"""Runs in `__qanat_pipelines` on a real broker: one per name, the older fenced, requests to stop, past runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TypeVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from msgspec.structs import replace

from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.faults import RefusedError
from qanat.connection.producer_session import ProducerSession
from qanat.model.error_codes import ErrorCode
from qanat.model.pipeline_runs import (
    LOST_AFTER_MS,
    PAST_RUNS_MAX,
    PipelineRuns,
    RunState,
    StopRequest,
    state_entry,
    stop_entry,
)
from qanat.model.topic_names import PIPELINES_TOPIC
from qanat.spark.options.options import Access
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop
from qanat.spark.pipelines.runs import run_recorder
from qanat.spark.pipelines.runs.run_processes import of_this_process, process_start
from qanat.spark.pipelines.runs.run_recorder import RunIsLiveError, RunRecorder, transactional_id
from qanat.spark.pipelines.runs.run_topic import append, ensure_topic, now_ms, read_runs
from qanat.testing import EmbeddedBroker

Result = TypeVar("Result")
TIMEOUT_S = 60
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"orders-{next(_numbers)}"


def ask(broker: EmbeddedBroker, work: Callable[[Cluster], Awaitable[Result]]) -> Result:
    async def connected() -> Result:
        async with Cluster(parse_bootstrap(broker.bootstrap_servers)) as cluster:
            return await work(cluster)

    return asyncio.run(connected())


def runs(broker: EmbeddedBroker) -> PipelineRuns:
    return ask(broker, read_runs)


def recorder(
    broker: EmbeddedBroker, name: str, run_id: str, stop: Stop | None = None, *, is_take_over: bool = False
) -> RunRecorder:
    state = of_this_process(RunState(name=name, run_id=run_id))
    return RunRecorder(Access(broker.bootstrap_servers), state, stop or Stop(), is_take_over=is_take_over)


class Waiting(Stop):
    """A stop that a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()

    def request(self) -> None:
        super().request()
        self.arrived.set()

    def fence(self, reason: str) -> None:
        super().fence(reason)
        self.arrived.set()


def test_a_run_is_in_the_topic_from_its_start_to_its_end(broker: EmbeddedBroker, name: str) -> None:
    with recorder(broker, name, "one") as recording:
        assert runs(broker).current[name].phase == "starting"
        tally = Tally(f"{name}-out", 1, 10, rows_per_second=5.0, offsets={"lines": {"0": 10}}, lags={"lines": 0})
        recording.show([tally], is_stopping=False)
        recording.end("stopped")
    found = runs(broker)

    assert found.current[name].phase == "stopped"
    assert (found.current[name].rows, found.current[name].queries[0].offsets) == (10, {"lines": {"0": 10}})
    assert [one.run_id for one in found.history(name)] == ["one"]
    assert found.history(name)[0].ended_ms is not None


def test_the_topic_is_compacted_and_hidden_and_clients_may_write_it(broker: EmbeddedBroker, name: str) -> None:
    with recorder(broker, name, "one") as recording:
        recording.end("finished")
    found = ask(broker, lambda cluster: cluster.metadata([PIPELINES_TOPIC], cluster.deadline()))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = ConfigResource(ConfigResource.Type.TOPIC, PIPELINES_TOPIC)
    configs = admin.describe_configs([wanted])[wanted].result(TIMEOUT_S)

    assert found.topics[0].is_internal
    assert configs["cleanup.policy"].value == "compact"


def test_a_second_run_of_a_live_name_is_refused_with_host_process_and_time(broker: EmbeddedBroker, name: str) -> None:
    with recorder(broker, name, "one") as first:
        with pytest.raises(RunIsLiveError) as fault, recorder(broker, name, "two"):
            pass
        first.end("stopped")

    assert f"pipeline {name} runs already: run one on {first.state.host}, process {first.state.pid}, since 2" in str(
        fault.value
    )
    assert "--take-over" in str(fault.value)
    assert runs(broker).current[name].run_id == "one"


def test_a_run_that_is_taken_over_is_asked_to_stop_first(broker: EmbeddedBroker, name: str) -> None:
    stop = Waiting()
    first = recorder(broker, name, "one", stop)
    first.__enter__()

    def finish() -> None:
        stop.arrived.wait(TIMEOUT_S)
        first.end("stopped")
        first.__exit__()

    finishing = threading.Thread(target=finish)
    finishing.start()
    with recorder(broker, name, "two", is_take_over=True) as second:
        second.end("stopped")
    finishing.join()

    assert (stop.times_requested, stop.fenced_by) == (1, None)
    assert [(one.run_id, one.phase) for one in runs(broker).history(name)] == [("two", "stopped"), ("one", "stopped")]


def test_a_run_that_does_not_stop_is_fenced_and_cannot_write_any_more(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_recorder, "TAKE_OVER_WITHIN_S", 0.1)
    stop = Waiting()
    with recorder(broker, name, "one", stop) as first, recorder(broker, name, "two", is_take_over=True) as second:
        while stop.fenced_by is None:
            stop.arrived.clear()
            assert stop.arrived.wait(TIMEOUT_S)
        first.end("finished")
        second.end("stopped")

    assert "this run of pipeline " in stop.fenced_by
    assert "was fenced" in stop.fenced_by
    found = runs(broker)
    assert (found.current[name].run_id, found.current[name].phase) == ("two", "stopped")
    assert [(one.run_id, one.phase) for one in found.history(name)] == [("two", "stopped"), ("one", "fenced")]


def test_a_run_that_wakes_up_late_is_fenced_by_its_first_write(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own reads do not show it the newer run: only the transactional id does."""
    monkeypatch.setattr(run_recorder, "TAKE_OVER_WITHIN_S", 0.1)
    monkeypatch.setattr(RunRecorder, "_take", lambda *_: None)
    stop = Waiting()
    with recorder(broker, name, "one", stop) as first, recorder(broker, name, "two", is_take_over=True) as second:
        first.show([Tally("q", 1, 99)], is_stopping=False)
        assert stop.arrived.wait(TIMEOUT_S)
        second.end("stopped")

    assert stop.fenced_by is not None
    assert stop.fenced_by.startswith(f"this run of pipeline {name} was fenced: run two on {second.state.host}")
    assert runs(broker).current[name].rows == 0


def test_a_run_that_only_lost_its_epoch_keeps_its_name(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was paused: the coordinator raised its epoch, and again for a renewal whose answer was lost."""
    monkeypatch.setattr(run_recorder, "NEWER_SHOWS_WITHIN_S", 1.0)

    async def raise_epoch(cluster: Cluster) -> None:
        await ProducerSession.transactional(cluster, transactional_id(name), 10_000, cluster.deadline())

    stop = Stop()
    with recorder(broker, name, "one", stop) as recording:
        ask(broker, raise_epoch)
        recording.show([Tally("q", 1, 99)], is_stopping=False)
        deadline = now_ms() + TIMEOUT_S * 1000
        while runs(broker).current[name].rows != 99:
            assert stop.fenced_by is None
            assert now_ms() < deadline
        recording.end("stopped")

    assert stop.fenced_by is None
    assert [(one.run_id, one.phase) for one in runs(broker).history(name)] == [("one", "stopped")]


def test_a_run_of_a_process_that_is_gone_needs_no_take_over(broker: EmbeddedBroker, name: str) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    state = of_this_process(RunState(name=name, run_id="one", phase="running", updated_ms=now_ms()))
    killed = replace(state, pid=ended.pid, process_start="1")

    async def write(cluster: Cluster) -> None:
        await ensure_topic(cluster, cluster.deadline())
        await append(cluster, [state_entry(killed)], cluster.deadline())

    ask(broker, write)
    with recorder(broker, name, "two") as second:
        second.end("stopped")

    assert [(one.run_id, one.phase) for one in runs(broker).history(name)] == [("two", "stopped"), ("one", "lost")]


def test_a_request_to_stop_reaches_the_run_and_is_removed(broker: EmbeddedBroker, name: str) -> None:
    stop = Waiting()
    with recorder(broker, name, "one", stop) as recording:
        request = StopRequest(run_id="one")
        ask(broker, lambda cluster: append(cluster, [stop_entry(name, request)], cluster.deadline()))
        assert stop.arrived.wait(TIMEOUT_S)
        recording.end("stopped")

    assert stop.times_requested == 1
    assert name not in runs(broker).stops


def test_a_request_to_stop_now_does_not_wait_and_one_to_another_run_is_ignored(
    broker: EmbeddedBroker, name: str
) -> None:
    stop = Waiting()
    with recorder(broker, name, "one", stop) as recording:
        for request in (StopRequest(run_id="zero", is_now=True), StopRequest(run_id="one", is_now=True)):
            entry = stop_entry(name, request)
            ask(broker, lambda cluster, entry=entry: append(cluster, [entry], cluster.deadline()))  # type: ignore[misc]
        assert stop.arrived.wait(TIMEOUT_S)
        recording.end("stopped")

    assert stop.times_requested == 2


def test_past_runs_are_bounded(broker: EmbeddedBroker, name: str) -> None:
    for number in range(PAST_RUNS_MAX + 2):
        with recorder(broker, name, f"run {number}") as recording:
            recording.end("finished")
    found = runs(broker).history(name)

    assert len(found) == PAST_RUNS_MAX
    assert found[0].run_id == f"run {PAST_RUNS_MAX + 1}"


def test_the_lag_is_measured_in_records_and_seconds(broker: EmbeddedBroker, name: str) -> None:
    topic = f"{name}.in"
    broker.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"x", partition=number % 2, timestamp=now_ms() - 50_000)
    assert producer.flush(TIMEOUT_S) == 0
    with recorder(broker, name, "one") as recording:
        tally = Tally(
            "q", 1, 5, offsets={topic: {"0": 5, "1": 2}, "elsewhere": {"0": 1}}, lags={topic: 0, "elsewhere": 7}
        )
        recording.show([tally], is_stopping=False)
        recording.end("stopped")
    query = runs(broker).current[name].queries[0]

    assert query.lag[topic].records == 3
    assert 50 <= (query.lag[topic].seconds or 0) < 110
    assert (query.lag["elsewhere"].records, query.lag["elsewhere"].seconds) == (7, None)


@pytest.mark.parametrize("is_required", [False, True])
def test_a_run_that_may_not_write_its_state_says_so_or_is_refused(
    broker: EmbeddedBroker, name: str, is_required: bool
) -> None:
    state = of_this_process(RunState(name=name, run_id="one"))
    recording = RunRecorder(Access(broker.bootstrap_servers), state, Stop(), is_required=is_required)
    denied = broker.fail("InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if is_required:
        with pytest.raises(RefusedError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), recording:
            pass
    else:
        with recording:
            recording.end("finished")
        assert recording.refusal is not None
        assert f"WRITE on transactional id qanat-pipeline-{name}" in recording.refusal

    assert denied.struck == 1
    assert name not in runs(broker).current


def test_a_write_that_failed_is_made_good_under_a_new_epoch(broker: EmbeddedBroker, name: str) -> None:
    with recorder(broker, name, "one") as recording:
        lost = broker.fail("EndTxn", ErrorCode.UNKNOWN_SERVER_ERROR)
        recording.show([Tally("q", 1, 99)], is_stopping=False)
        recording.end("stopped")

    assert lost.struck == 1
    assert (runs(broker).current[name].phase, runs(broker).current[name].rows) == ("stopped", 99)


def test_a_run_without_a_word_is_lost_after_a_minute() -> None:
    state = RunState(name="x", run_id="1", phase="running", updated_ms=1000)

    assert state.phase_at(1000 + LOST_AFTER_MS) == "running"
    assert state.phase_at(1001 + LOST_AFTER_MS) == "lost"
    assert replace(state, phase="stopped").phase_at(10**15) == "stopped"


def test_records_that_are_not_ours_are_skipped() -> None:
    found = PipelineRuns()
    for key, value in ((None, b"{}"), (b"\xff", b"{}"), (b'["run","x"]', b"no JSON"), (b'["other",1]', b"{}")):
        found.apply(key, value)

    assert (found.current, found.past, found.stops) == ({}, {}, {})


def test_a_process_is_known_by_its_start() -> None:
    assert process_start(1) != ""
    assert process_start(2**22 + 1) == ""
