"""`qanat pipeline show`: a pipeline and its settings."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def show(name: Annotated[str, Parameter(name="pipeline")], /) -> None:
    """Print a pipeline: what it reads, computes and writes, and its settings. A template for your own.

        qanat pipeline show metrics > mine.yaml

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    """
    from qanat.spark.pipelines.bundled.catalogue import named

    print(named(name).text, end="")
