"""A pipeline in this process: Spark started quietly, signals handled, progress shown and served."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from qanat.app.pipelines.metrics_exporter import Exporter
from qanat.app.pipelines.progress_display import ProgressDisplay, progress_display
from qanat.spark.java_process import EXIT_WHEN_FULL, JavaEndedError, discard, has_ended, is_lost, reason_of_end
from qanat.spark.pipelines.back_off import BackOff
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import LOOK_EVERY_S, Stop, watch
from qanat.spark.session import session


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
        back_off, batches = BackOff(), 0

        def look(tallies: list[Tally]) -> None:
            nonlocal batches
            batches = sum(tally.batches for tally in tallies)
            display.show(tallies, is_stopping=stop.times_requested > 0)
            if exporter is not None:
                exporter.tallies = tallies

        while True:
            try:
                return _run_once(pipeline, request, lines, display, stop, look)
            except JavaEndedError as fault:
                wait_s = back_off.next_wait_s(has_progress=batches > 0)
                if wait_s is None or stop.times_requested:
                    raise
                display.print_message(f"{fault}; it continues in {wait_s:.0f} s")
                batches = 0
                _wait(wait_s, stop)


def _run_once(
    pipeline: Pipeline,
    request: RunRequest,
    lines: list[str],
    display: ProgressDisplay,
    stop: Stop,
    look: Callable[[list[Tally]], None],
) -> list[Tally]:
    """Run in one Java; raises `JavaEndedError` when it ends before the pipeline."""
    given = {**quiet_settings(is_verbose=request.is_verbose, java_options=EXIT_WHEN_FULL), **request.spark_settings}
    spark = session(f"qanat-{pipeline.name}", request.master, given)
    run_options = RunOptions(
        request.bootstrap, request.checkpoint, request.is_available_now, lines.append, request.client
    )
    try:
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
        else:
            spark.stop()


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
        "spark.driver.extraJavaOptions": f"{logging_options} {java_options}".rstrip(),
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
