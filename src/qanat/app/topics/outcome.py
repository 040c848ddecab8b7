"""What `qanat topic create` and `delete` report for each topic."""

from __future__ import annotations

from qanat.app.terminal.listing import Row

DONE_COLUMNS = ("topic", "partitions", "done")


def done_sentence(row: Row) -> str:
    if row["done"] == "exists":
        return f"{row['topic']} exists"
    size = f" with {row['partitions']} partitions" if row["partitions"] is not None else ""
    return f"{row['done']} {row['topic']}{size}"
