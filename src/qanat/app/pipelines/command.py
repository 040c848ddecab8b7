"""`qanat pipeline list|show|run`: pipelines that come with Qanat, and your own in YAML."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.session import HERE, Target, WrongArgumentError, assignments
from qanat.app.terminal.listing import Output, Row, counted, print_rows
from qanat.app.terminal.standard_streams import complain

_COLUMNS = ("pipeline", "settings", "meaning")
_MASTERS = ("local", "spark://", "yarn", "k8s://")


def list_pipelines(*, output: Output = "table") -> None:
    """List the pipelines that come with Qanat.

        qanat pipeline list

    Parameters
    ----------
    output:
        `table` for people; `json`, `jsonl`, `yaml`, `csv`, `names` for programs.
    """
    from qanat.spark.pipelines.bundled.catalogue import every

    rows: list[Row] = [
        {"pipeline": one.name, "settings": ", ".join(one.settings), "meaning": one.meaning} for one in every()
    ]
    print_rows(rows, _COLUMNS, output, spare=("settings",))


def show(name: Annotated[str, Parameter(name="pipeline")], /) -> None:
    """Print a pipeline: what it reads, computes and writes, and its settings. A beginning for one of your own.

        qanat pipeline show metrics > mine.yaml

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    """
    from qanat.spark.pipelines.bundled.catalogue import named

    print(named(name).text, end="")


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
    """Run a pipeline on Spark until it is told to stop. The next run goes on where this one ended.

        qanat pipeline run metrics --lake /data/lake/metrics
        qanat pipeline run archive --topics orders,payments --lake /backup/shop
        qanat pipeline run replay --lake /backup/shop --until 2026-11-15T10:30 --prefix restored.
        qanat pipeline run mine.yaml --available-now

    Settings of the pipeline are options as well: --lake X is --set lake=X. `qanat pipeline run archive --help` lists
    those of `archive`.

    Ctrl-C and SIGTERM let the micro-batch at hand finish; a second time, they do not wait.

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    master:
        Where Spark runs: local[2], spark://host:7077, yarn, k8s://…
    settings:
        A setting of the pipeline, as often as needed: --set name=value. `qanat pipeline show` lists them.
    available_now:
        Do what is there now, and end.
    checkpoint:
        Where the progress is kept, instead of where the pipeline says.
    metrics_port:
        Serve the progress to Prometheus at this port of 127.0.0.1, path /metrics.
    conf:
        A setting of Spark, as often as needed: --conf spark.executor.memory=4g.
    verbose:
        Show what Spark writes into its log.
    """
    from qanat.app.pipelines.live import line
    from qanat.app.pipelines.options import as_settings
    from qanat.app.pipelines.running import Asked, run_here
    from qanat.spark.pipelines.bundled.catalogue import named

    if metrics_port is not None and not 0 <= metrics_port <= 65535:
        raise WrongArgumentError(f"--metrics-port {metrics_port}: write a number from 0 to 65535")
    if not master.startswith(_MASTERS):
        raise WrongArgumentError(f"--master {master}: write local[2], spark://host:7077, yarn or k8s://…")
    pipeline = named(name)
    given = {**assignments(settings or []), **as_settings(pipeline, options)}
    pipeline.check(given)
    asked = Asked(
        master=master,
        bootstrap=target.address(),
        client=target.protection(),
        settings=given,
        spark_settings=assignments(conf or []),
        checkpoint=checkpoint,
        is_available_now=available_now,
        metrics_port=metrics_port,
        is_verbose=verbose,
        tell=print,
    )
    for tally in run_here(pipeline, asked):
        print(line(tally))
        if tally.late:
            complain(
                f"{tally.query}: Spark's watermark left out {counted(tally.late, 'row')}: it was read unevenly; "
                "a longer delay keeps them"
            )
