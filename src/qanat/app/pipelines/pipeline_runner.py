"""A pipeline in this process: Spark started quietly, signals handled, progress shown and served."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from qanat.app.pipelines.metrics_exporter import Exporter
from qanat.app.pipelines.progress_display import progress_display
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
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
        spark = session(
            f"qanat-{pipeline.name}",
            request.master,
            {**quiet_settings(is_verbose=request.is_verbose), **request.spark_settings},
        )
        stack.callback(spark.stop)
        display.print_message(f"Spark {spark.version} runs at {spark.sparkContext.master}")
        stop = stack.enter_context(stop_on_signals())

        def look(tallies: list[Tally]) -> None:
            display.show(tallies, is_stopping=stop.times_requested > 0)
            if exporter is not None:
                exporter.tallies = tallies

        run_options = RunOptions(
            request.bootstrap, request.checkpoint, request.is_available_now, lines.append, request.client
        )
        return watch(pipeline.launch(spark, request.settings, run_options), stop, look)


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
