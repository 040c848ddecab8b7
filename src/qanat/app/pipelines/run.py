"""`qanat pipeline run`: run a bundled pipeline, or one in a YAML file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import counted
from qanat.app.terminal.standard_streams import print_error

_MASTERS = ("local", "spark://", "yarn", "k8s://")


def run(
    name: Annotated[str, Parameter(name="pipeline")],
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    master: str = "local[*]",
    settings: Annotated[list[str] | None, Parameter(name=["--set", "-s"], negative="")] = None,
    available_now: Annotated[bool, Parameter(negative="")] = False,
    checkpoint: str | None = None,
    metrics_port: int | None = None,
    conf: Annotated[list[str] | None, Parameter(name="--conf", negative="")] = None,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False,
    target: Target = HERE,
) -> None:
    """Run a pipeline on Spark until it is stopped. The next run continues where this one ended.

        qanat pipeline run metrics --lake /data/lake/metrics
        qanat pipeline run archive --topics orders,payments --lake /backup/shop
        qanat pipeline run replay --lake /backup/shop --until 2026-11-15T10:30 --prefix restored.
        qanat pipeline run mine.yaml --available-now

    Settings of the pipeline are options as well: --lake X is --set lake=X. `qanat pipeline run archive --help` lists
    those of `archive`.

    Ctrl-C and SIGTERM let the running micro-batch finish; a second one does not wait.

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    master:
        Where Spark runs: local[2], spark://host:7077, yarn, k8s://…
    settings:
        A setting of the pipeline, as often as needed: --set name=value. `qanat pipeline show` lists them.
    available_now:
        Process all available records, and end.
    checkpoint:
        Folder of the progress, instead of the pipeline's own.
    metrics_port:
        Serve the progress to Prometheus at this port of 127.0.0.1, path /metrics.
    conf:
        A setting of Spark, as often as needed: --conf spark.executor.memory=4g.
    verbose:
        Show Spark's log.
    """
    from qanat.app.pipelines.pipeline_options import parse_options
    from qanat.app.pipelines.pipeline_runner import RunRequest, run_here
    from qanat.app.pipelines.progress_display import line
    from qanat.spark.pipelines.bundled.catalogue import named

    if metrics_port is not None and not 0 <= metrics_port <= 65535:
        raise WrongArgumentError(f"--metrics-port {metrics_port}: write a number from 0 to 65535")
    if not master.startswith(_MASTERS):
        raise WrongArgumentError(f"--master {master}: write local[2], spark://host:7077, yarn or k8s://…")
    pipeline = named(name)
    pipeline_settings = {**assignments(settings or []), **parse_options(pipeline, options)}
    pipeline.check(pipeline_settings)
    request = RunRequest(
        master=master,
        bootstrap=target.address(),
        client=target.protection(),
        settings=pipeline_settings,
        spark_settings=assignments(conf or []),
        checkpoint=checkpoint,
        is_available_now=available_now,
        metrics_port=metrics_port,
        is_verbose=verbose,
        print_line=print,
    )
    for tally in run_here(pipeline, request):
        print(line(tally))
        if tally.late:
            print_error(
                f"{tally.query}: {counted(tally.late, 'row')} came after their windows were closed; a longer delay "
                "avoids it"
            )
