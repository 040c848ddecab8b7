"""`qanat pipeline status|stop|history|submit|restart` on a real broker; what runs here has no Spark."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qanat.app.main import run
from qanat.model.pipeline_runs import RunState
from qanat.spark.options.options import Access
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop
from qanat.spark.pipelines.runs.run_processes import of_this_process
from qanat.spark.pipelines.runs.run_recorder import RunRecorder
from qanat.testing import EmbeddedBroker

TIMEOUT_S = 60
COPY = """\
name: copy
sources: {lines: {topic: lines}}
sinks: {out: {from: lines, topic: copied}}
checkpoint: %s
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QANAT_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class StoppableRun(Stop):
    """A run that ends when it is asked to."""

    def __init__(self, broker: EmbeddedBroker, name: str, **fields: object) -> None:
        super().__init__()
        state = of_this_process(RunState(name=name, run_id=f"{name}-1", **fields))  # type: ignore[arg-type]
        self.recorder = RunRecorder(Access(broker.bootstrap_servers), state, self)
        self.arrived = threading.Event()

    def request(self) -> None:
        super().request()
        self.arrived.set()


@contextmanager
def running(broker: EmbeddedBroker, name: str, **fields: object) -> Iterator[StoppableRun]:
    stoppable = StoppableRun(broker, name, **fields)

    def live() -> None:
        with stoppable.recorder as recorder:
            tally = Tally(f"{name}-out", 2, 30, rows_per_second=4.0, lags={"lines": 5}, offsets={"lines": {"0": 30}})
            recorder.show([tally], is_stopping=False)
            began.set()
            stoppable.arrived.wait(TIMEOUT_S)
            recorder.show([tally], is_stopping=True)
            recorder.end("stopped")

    began = threading.Event()
    thread = threading.Thread(target=live)
    thread.start()
    assert began.wait(TIMEOUT_S)
    try:
        yield stoppable
    finally:
        stoppable.arrived.set()
        thread.join()


def test_a_run_is_shown_stopped_and_in_the_history(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    with running(broker, "orders", settings={"input": "orders"}, master="local[1]") as here:
        assert run(["pipeline", "status", "-o", "names"]) == 0
        assert "orders" in capsys.readouterr().out.split()
        assert run(["pipeline", "stop", "orders"]) == 0
        assert capsys.readouterr().out == "pipeline orders is stopped: 30 rows in this run\n"
        assert here.times_requested == 1
    assert run(["pipeline", "status", "orders"]) == 0
    shown = capsys.readouterr().out
    assert run(["pipeline", "history", "orders", "-o", "json"]) == 0
    (past,) = json.loads(capsys.readouterr().out)

    for text in ("state       stopped", "settings    input=orders", "process     ", "orders-out  lines"):
        assert text in shown
    assert (past["outcome"], past["rows"], past["master"], past["error"]) == ("stopped", 30, "local[1]", None)


def test_a_run_is_shown_to_programs_with_everything(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    with running(broker, "whole"):
        pass
    assert run(["pipeline", "status", "whole", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["phase"], found["queries"][0]["offsets"]) == ("stopped", {"lines": {"0": 30}})


def test_a_run_whose_process_was_killed_here_is_lost_at_once(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(broker, "killed", process_start="1") as here:
        here.recorder._change(process_start="1")
        while run(["pipeline", "status", "killed", "-o", "json"]) == 0:
            if json.loads(capsys.readouterr().out)["process_start"] == "1":
                break
        assert run(["pipeline", "status", "killed"]) == 0
        assert "state       lost\n" in capsys.readouterr().out
        assert run(["pipeline", "history", "killed", "-o", "json"]) == 0
        assert [one["outcome"] for one in json.loads(capsys.readouterr().out)] == ["lost"]


def test_a_run_that_is_over_is_not_stopped_again(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    with running(broker, "over"):
        pass
    assert run(["pipeline", "stop", "over"]) == 0

    assert capsys.readouterr().out.startswith("pipeline over does not run: it is stopped since 2")


def test_a_run_that_does_not_end_in_time_keeps_the_exit_code_at_1(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoppableRun, "request", Stop.request)
    with running(broker, "slow"):
        assert run(["pipeline", "stop", "slow", "--within", "1"]) == 1

    assert "still finishes its micro-batch" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "stop", "restart", "history"])
def test_a_name_that_never_ran_is_one_sentence(
    broker: EmbeddedBroker, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(broker, "billing"):
        pass
    assert run(["pipeline", command, "biling"]) == 1

    assert "no pipeline biling has run in this cluster; did you mean billing?" in capsys.readouterr().err


def test_a_live_name_is_not_submitted_again(
    broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy.yaml"
    path.write_text(COPY % (tmp_path / "checkpoint"))
    with running(broker, "copy"):
        assert run(["pipeline", "submit", str(path)]) == 1

    assert "pipeline copy runs already: run copy-1 on " in capsys.readouterr().err


def test_a_run_that_does_not_start_is_reported_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy.yaml"
    path.write_text(COPY.replace("name: copy", "name: doomed") % (tmp_path / "checkpoint"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["pipeline", "submit", str(path), "--metrics-port", str(port)]) == 1

    assert f"pipeline doomed did not start: cannot serve metrics on 127.0.0.1:{port}" in capsys.readouterr().err
    (folder,) = (tmp_path / "state" / "qanat" / "pipelines").iterdir()
    assert (folder.stat().st_mode & 0o777, (folder / "command.json").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_run_of_elsewhere_cannot_be_restarted_here(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(broker, "remote"):
        assert run(["pipeline", "restart", "remote"]) == 1

    assert "pipeline remote was not submitted on this machine, but ran on " in capsys.readouterr().err
