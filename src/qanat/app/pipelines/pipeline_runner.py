"""A pipeline in this process: Spark started quietly, signals handled, progress shown and served."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from uuid import uuid4

from qanat.app.pipelines.progress_display import ProgressDisplay, progress_display
from qanat.model.pipeline_runs import RunState
from qanat.spark.java_process import (
    EXIT_WHEN_FULL,
    JavaEndedError,
    discard,
    has_ended,
    hide_its_end,
    is_lost,
    reason_of_end,
)
from qanat.spark.options.options import access_of
from qanat.spark.pipelines.back_off import BackOff
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions, cluster_options
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import LOOK_EVERY_S, Stop, watch
from qanat.spark.pipelines.runs.exporter import Exporter
from qanat.spark.pipelines.runs.run_processes import of_this_process
from qanat.spark.pipelines.runs.run_recorder import RunRecorder
from qanat.spark.pipelines.runs.secrets import settings_without_secrets, without_secrets
from qanat.spark.pipelines.spark_faults import MachineFaultError
from qanat.spark.session import session

LOG_FILE = "QANAT_PIPELINE_LOG"
"""The variable by which `submit` says where the output of a run goes."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFINITION_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The options of one `qanat pipeline run`."""

    master: str
    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | None = None
    is_available_now: bool = False
    metrics_port: int | None = None
    is_verbose: bool = False
    print_line: Callable[[str], None] = lambda _: None
    """Prints the lines of a result, at the end."""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """TLS and SASL settings of the cluster, in the names of Kafka's clients."""
    name: str | None = None
    """The name of the run; the pipeline's, where there is none."""
    origin: str = ""
    """The pipeline as it was named: its name, or the path of its file."""
    from_checkpoint: str | None = None
    is_take_over: bool = False

    def state(self, pipeline: Pipeline) -> RunState:
        """The run as it begins."""
        text = without_secrets(pipeline.text)
        state = RunState(
            name=self.name or pipeline.name,
            run_id=uuid4().hex[:12],
            pipeline=self.origin or pipeline.name,
            definition=text if len(text) <= _DEFINITION_MAX else f"{text[:_DEFINITION_MAX]}\n...",
            settings=settings_without_secrets(self.settings),
            master=self.master,
            checkpoint=self.checkpoint,
            log=os.environ.get(LOG_FILE),
        )
        return of_this_process(state)


def run_here(pipeline: Pipeline, request: RunRequest) -> list[Tally]:
    """Run until everything is done or a signal stops it; returns the tally of each query."""
    lines: list[str] = []
    try:
        return _run(pipeline, request, lines)
    finally:
        # After the live display has ended.
        for line in lines:
            request.print_line(line)


def _run(pipeline: Pipeline, request: RunRequest, lines: list[str]) -> list[Tally]:
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter(request.metrics_port)) if request.metrics_port is not None else None
        display = stack.enter_context(progress_display(pipeline.name))
        display.print_message(
            "starting Spark" if exporter is None else f"starting Spark; metrics at {exporter.address}"
        )
        stop = stack.enter_context(stop_on_signals())
        recorder = stack.enter_context(
            RunRecorder(
                access_of(cluster_options(request.bootstrap, request.client)),
                request.state(pipeline),
                stop,
                is_take_over=request.is_take_over,
                is_required=LOG_FILE in os.environ,
            )
        )
        if exporter is not None:
            exporter.read = lambda: recorder.state.queries
        if recorder.refusal is not None:
            display.print_message(recorder.refusal)
        try:
            tallies = _run_on(pipeline, request, lines, display, stop, recorder)
        except BaseException as fault:
            recorder.end("failed", stop.fenced_by or str(fault) or type(fault).__name__)
            if stop.fenced_by is not None and isinstance(fault, Exception):
                raise PipelineError(stop.fenced_by) from None
            raise
        if stop.fenced_by is not None:
            raise PipelineError(stop.fenced_by)
        recorder.show(tallies, is_stopping=True)
        recorder.end("stopped" if stop.times_requested else "finished")
        return tallies


def _run_on(
    pipeline: Pipeline,
    request: RunRequest,
    lines: list[str],
    display: ProgressDisplay,
    stop: Stop,
    recorder: RunRecorder,
) -> list[Tally]:
    """Run in one Java after the other where the machine ends them, or in one session after the other."""
    back_off, batches = BackOff(), 0

    def look(tallies: list[Tally]) -> None:
        nonlocal batches
        batches = sum(tally.batches for tally in tallies)
        display.show(tallies, is_stopping=stop.times_requested > 0)
        recorder.show(tallies, is_stopping=stop.times_requested > 0)

    while True:
        try:
            return _run_once(pipeline, request, lines, display, stop, look)
        except (JavaEndedError, MachineFaultError) as fault:
            wait_s = back_off.next_wait_s(has_progress=batches > 0)
            if wait_s is None or stop.times_requested:
                raise PipelineError(f"{fault}; run it again, it continues where it was") from None
            display.print_message(f"{fault}; it continues in {wait_s:.0f} s")
            batches = 0
            recorder.restarted(str(fault))
            _wait(wait_s, stop)


def _run_once(
    pipeline: Pipeline,
    request: RunRequest,
    lines: list[str],
    display: ProgressDisplay,
    stop: Stop,
    look: Callable[[list[Tally]], None],
) -> list[Tally]:
    """Run in one session; raises `JavaEndedError` when its Java ends before the pipeline, and `MachineFaultError`."""
    run_options = RunOptions(
        request.bootstrap,
        request.checkpoint,
        request.is_available_now,
        lines.append,
        request.client,
        request.from_checkpoint,
    )
    spark = None
    try:
        spark = session(f"qanat-{pipeline.name}", request.master, _spark_settings(request))
        if not request.is_verbose:
            hide_its_end()
        display.print_message(f"Spark {spark.version} runs at {spark.conf.get('spark.master')}")
        return watch(pipeline.launch(spark, request.settings, run_options), stop, look)
    except Exception as fault:
        reason = reason_of_end() if is_lost(fault) else None
        if reason is None:
            raise
        raise JavaEndedError(reason) from None
    finally:
        if has_ended():
            discard()
        elif spark is not None:
            spark.stop()


def _spark_settings(request: RunRequest) -> dict[str, str]:
    """The user's settings of Spark; Java's options are added to ours, of which a run needs some."""
    ours = quiet_settings(is_verbose=request.is_verbose, java_options=EXIT_WHEN_FULL)
    given = {**ours, **request.spark_settings}
    if JAVA_OPTIONS in request.spark_settings:
        given[JAVA_OPTIONS] = f"{ours[JAVA_OPTIONS]} {request.spark_settings[JAVA_OPTIONS]}"
    return given


def _wait(seconds: float, stop: Stop) -> None:
    """Wait, or until a signal requests a stop."""
    until = time.monotonic() + seconds
    while not stop.times_requested and time.monotonic() < until:
        time.sleep(min(LOOK_EVERY_S, seconds))


def quiet_settings(*, is_verbose: bool = False, java_options: str = "") -> dict[str, str]:
    """Settings with which Spark prints nothing, or warnings and errors."""
    if not is_verbose:
        # The exception has the same text and becomes the one sentence that is printed.
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    configuration = files("qanat.spark") / "log4j2.properties"
    level = "warn" if is_verbose else "off"
    logging_options = f"-Dlog4j2.configurationFile=file:{configuration} -Dqanat.log.level={level}"
    return {
        JAVA_OPTIONS: f"{logging_options} {java_options}".rstrip(),
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Ctrl-C, SIGTERM and SIGHUP request a stop within this context."""
    stop = Stop()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda *_: stop.request())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
