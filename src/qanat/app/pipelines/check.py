"""`qanat pipeline check`: what is wrong with a pipeline, without running it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import assignments
from qanat.app.terminal.listing import counted


def check(
    name: Annotated[str, Parameter(name="pipeline")],
    /,
    *,
    settings: Annotated[list[str] | None, Parameter(name=["--set", "-s"], negative="")] = None,
) -> None:
    """Check a pipeline: its keys, settings and tables, and the Python functions that it names. Spark is not started.

        qanat pipeline check mine.yaml --set input=orders

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    settings:
        A setting of the pipeline, as often as needed: --set name=value.
    """
    from qanat.spark.pipelines.bundled.catalogue import named

    pipeline = named(name)
    given = assignments(settings or [])
    if pipeline.define is None:
        pipeline.check(given)
        print(f"{pipeline.name} can be run")
        return
    found = pipeline.define(given)
    counts = {"source": len(found.sources), "step": len(found.steps), "sink": len(found.sinks)}
    print(f"{pipeline.name} can be run: {', '.join(counted(count, noun) for noun, count in counts.items())}")
