"""A pipeline in this process: Spark started without noise, signals heeded, progress told and served."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from qanat.app.pipelines.live import shown
from qanat.app.pipelines.metrics import Exporter
from qanat.spark.pipelines.bundled.catalogue import How, Pipeline
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.session import session


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was asked for."""

    master: str
    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | None = None
    is_available_now: bool = False
    metrics_port: int | None = None
    is_verbose: bool = False
    tell: Callable[[str], None] = lambda _: None
    """Takes the lines of a result, when everything is over."""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the cluster wants to be talked to: TLS and SASL, in the names of Kafka's clients."""


def run_here(pipeline: Pipeline, asked: Asked) -> list[Tally]:
    """Run until everything is done, or somebody wants it to stop; returns what each query did."""
    lines: list[str] = []
    try:
        return _run(pipeline, asked, lines)
    finally:
        # Not while the picture is being drawn.
        for line in lines:
            asked.tell(line)


def _run(pipeline: Pipeline, asked: Asked, lines: list[str]) -> list[Tally]:
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter(asked.metrics_port)) if asked.metrics_port is not None else None
        tell = stack.enter_context(shown(pipeline.name))
        tell.say("starting Spark" if exporter is None else f"starting Spark; metrics at {exporter.address}")
        spark = session(
            f"qanat-{pipeline.name}",
            asked.master,
            {**quiet_settings(is_verbose=asked.is_verbose), **asked.spark_settings},
        )
        stack.callback(spark.stop)
        tell.say(f"Spark {spark.version} runs at {spark.sparkContext.master}")
        stop = stack.enter_context(heeded_signals())

        def look(tallies: list[Tally]) -> None:
            tell.show(tallies, is_stopping=stop.times_asked > 0)
            if exporter is not None:
                exporter.tallies = tallies

        how = How(asked.bootstrap, asked.checkpoint, asked.is_available_now, lines.append, asked.client)
        return watch(pipeline.launch(spark, asked.settings, how), stop, look)


def quiet_settings(*, is_verbose: bool = False, java_options: str = "") -> dict[str, str]:
    """Settings with which Spark writes nothing to the terminal, or everything from warnings on."""
    if not is_verbose:
        # What it says is in the exception, which becomes our one sentence.
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
def heeded_signals() -> Iterator[Stop]:
    """Ctrl-C, SIGTERM and SIGHUP ask for a stop, as long as this lasts."""
    stop = Stop()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda *_: stop.ask())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
