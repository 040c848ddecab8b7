"""`qanat pipeline list`."""

from __future__ import annotations

from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("pipeline", "settings", "meaning")


def list_pipelines(*, output: Output = "table") -> None:
    """List the pipelines that come with Qanat.

        qanat pipeline list

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    from qanat.spark.pipelines.bundled.catalogue import every

    rows: list[Row] = [
        {"pipeline": one.name, "settings": ", ".join(one.settings), "meaning": one.meaning} for one in every()
    ]
    print_rows(rows, _COLUMNS, output, spare=("settings",))
