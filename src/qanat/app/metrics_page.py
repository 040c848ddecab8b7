"""The table in `docs/operating/metrics.md`, generated from the metrics: `python -m qanat.app.metrics_page`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from qanat.servers.metrics.families import FAMILIES

BEGIN, END = "<!-- metrics: generated -->\n", "<!-- metrics: end -->\n"


def table() -> str:
    """The table: a row per metric."""
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |")
    return "\n".join([*lines, ""])


def renewed(page: str) -> str:
    """The page with its table regenerated."""
    made = BEGIN + table() + END
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: made, page, flags=re.DOTALL)


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/operating/metrics.md")
    path.write_text(renewed(path.read_text()))
    print(f"{path} is up to date")
