"""`qanat pipeline run`: run a bundled pipeline, or one in a YAML file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.pipelines.run_flags import DEFAULTS, RunFlags
from qanat.app.terminal.listing import counted
from qanat.app.terminal.standard_streams import print_error


def run(
    name: Annotated[str, Parameter(name="pipeline")],
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    flags: RunFlags = DEFAULTS,
    target: Target = HERE,
) -> None:
    """Run a pipeline on Spark until it is stopped. The next run continues where this one ended.

        qanat pipeline run metrics --lake /data/lake/metrics
        qanat pipeline run archive --topics orders,payments --lake /backup/shop
        qanat pipeline run replay --lake /backup/shop --until 2026-11-15T10:30 --prefix restored.
        qanat pipeline run mine.yaml --available-now

    Settings of the pipeline are options as well: --lake X is --set lake=X. `qanat pipeline run archive --help` lists
    those of `archive`.

    Ctrl-C and SIGTERM let the running micro-batch finish; a second one does not wait. `qanat pipeline status` shows
    the run from any machine.

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    """
    from qanat.app.pipelines.pipeline_runner import run_here
    from qanat.app.pipelines.progress_display import line
    from qanat.spark.pipelines.bundled.catalogue import named

    pipeline = named(name)
    for tally in run_here(pipeline, flags.request(name, pipeline, options, target)):
        print(line(tally))
        if tally.late:
            print_error(
                f"{tally.query}: {counted(tally.late, 'row')} came after their windows were closed; a longer delay "
                "avoids it"
            )
