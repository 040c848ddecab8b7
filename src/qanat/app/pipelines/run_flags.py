"""The flags that `run` and `submit` share, and the request that they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.target import Target

if TYPE_CHECKING:
    from qanat.app.pipelines.pipeline_runner import RunRequest
    from qanat.spark.pipelines.pipeline import Pipeline

_MASTERS = ("local", "spark://", "yarn", "k8s://")
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 20, "k": 10, "m": 20, "g": 30, "t": 40}
"""Powers of two; Spark takes a number alone for MiB."""
_LEAST_HEAP_BYTES = 450 << 20
"""Spark refuses to start with less."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunFlags:
    """How a pipeline runs."""

    master: str = "local[*]"
    """Where Spark runs: local[2], spark://host:7077, yarn, k8s://…"""
    settings: Annotated[list[str] | None, Parameter(name=["--set", "-s"], negative="")] = None
    """A setting of the pipeline, as often as needed: --set name=value. `qanat pipeline show` lists them."""
    available_now: Annotated[bool, Parameter(negative="")] = False
    """Process all available records, and end."""
    checkpoint: str | None = None
    """Folder of the progress, instead of the pipeline's own."""
    from_checkpoint: str | None = None
    """Begin a new checkpoint at the offsets of this one; its state is left behind."""
    metrics_port: int | None = None
    """Serve the progress to Prometheus at this port of 127.0.0.1, path /metrics."""
    conf: Annotated[list[str] | None, Parameter(name="--conf", negative="")] = None
    """A setting of Spark, as often as needed: --conf spark.executor.memory=4g."""
    name: Annotated[str | None, Parameter(name="--as")] = None
    """The name of the run, instead of the pipeline's: of runs with one name there is only one."""
    take_over: Annotated[bool, Parameter(negative="")] = False
    """Replace a run of this name that is alive: it is asked to stop, and fenced where it does not."""
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False
    """Show Spark's log."""

    def request(self, name: str, pipeline: Pipeline, options: tuple[str, ...], target: Target) -> RunRequest:
        """The checked request; raises what is wrong with it, before anything is started."""
        from qanat.app.pipelines.pipeline_options import parse_options
        from qanat.app.pipelines.pipeline_runner import RunRequest
        from qanat.spark.pipelines.runs.checkpoints import refuse_misfits

        if self.metrics_port is not None and not 0 <= self.metrics_port <= 65535:
            raise WrongArgumentError(f"--metrics-port {self.metrics_port}: write a number from 0 to 65535")
        if not self.master.startswith(_MASTERS):
            raise WrongArgumentError(f"--master {self.master}: write local[2], spark://host:7077, yarn or k8s://…")
        run_name = self.name or pipeline.name
        if _NAME.fullmatch(run_name) is None:
            raise WrongArgumentError(f"--as {run_name[:120]!r}: write letters, digits, . _ and -, at most 100")
        spark_settings = assignments(self.conf or [])
        check_heap(self.master, spark_settings.get("spark.driver.memory"))
        pipeline_settings = {**assignments(self.settings or []), **parse_options(pipeline, options)}
        pipeline.check(pipeline_settings)
        if pipeline.define is not None:
            defined = pipeline.define(pipeline_settings)
            refuse_misfits(defined, self.checkpoint or defined.checkpoint)
        return RunRequest(
            master=self.master,
            bootstrap=target.address(),
            client=target.protection(),
            settings=pipeline_settings,
            spark_settings=spark_settings,
            checkpoint=self.checkpoint,
            from_checkpoint=self.from_checkpoint,
            is_available_now=self.available_now,
            metrics_port=self.metrics_port,
            is_verbose=self.verbose,
            print_line=print,
            name=run_name,
            origin=str(Path(name).absolute()) if Path(name).is_file() else name,
            is_take_over=self.take_over,
        )


DEFAULTS = RunFlags()


def check_heap(master: str, memory: str | None) -> None:
    """Refuse a heap in which Spark does not start; a size that Spark cannot read is for Spark to report.

    >>> check_heap("local[2]", "2g")
    >>> check_heap("local[2]", "200m")
    Traceback (most recent call last):
    qanat.app.client.arguments.WrongArgumentError: --conf spark.driver.memory=200m: Spark needs a heap of at least 450m
    """
    found = _SIZE.fullmatch((memory or "").strip())
    if memory is None or found is None or not master.startswith("local"):
        return
    if int(found[1]) << _UNITS[found[2].lower()] < _LEAST_HEAP_BYTES:
        raise WrongArgumentError(f"--conf spark.driver.memory={memory}: Spark needs a heap of at least 450m")
