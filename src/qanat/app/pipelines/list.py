"""`qanat pipeline list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.app.terminal.listing import Output, Row, print_rows

if TYPE_CHECKING:
    from qanat.spark.pipelines.pipeline import Pipeline

_COLUMNS = ("pipeline", "package", "settings", "meaning")


def list_pipelines(*, output: Output = "table") -> None:
    """List the pipelines that come with Qanat, and those of installed packages.

        qanat pipeline list

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    from qanat import __version__
    from qanat.spark.pipelines.bundled.catalogue import every, installed

    rows = [_row(one, f"qanat {__version__}") for one in every()]
    for one in installed():
        if one.pipeline is not None:
            rows.append(_row(one.pipeline, one.package))
        else:
            meaning = f"cannot be used: {one.fault}"
            rows.append({"pipeline": one.name, "package": one.package, "settings": "", "meaning": meaning})
    print_rows(rows, _COLUMNS, output, spare=("settings", "package"))


def _row(pipeline: Pipeline, package: str) -> Row:
    settings = ", ".join(pipeline.settings)
    return {"pipeline": pipeline.name, "package": package, "settings": settings, "meaning": pipeline.meaning}
