"""The page of differences, `docs/protocols/differences.md`, made from their list.

python -m verify.conformance.page
"""

from __future__ import annotations

import sys

from verify.conformance import table
from verify.conformance.table import Listed

PAGE = table.ROOT / "docs" / "protocols" / "differences.md"

_HEAD = """# Where Qanat answers differently from Kafka

Scripted conversations cover every API that Qanat serves in every version, the ways to get each wrong, and, with an
authorizer, each as users with every kind of rule and with each operation alone. Apache Kafka 4.1 answered them (4.2
some that 4.1 does not serve), and its answers are recorded. The tests hold the same {conversations} conversations,
{steps} requests in all, with Qanat and compare the answers field by field. This page lists all differences.
The tests do not compare ids that a broker draws, times, addresses and the words of error messages.

This page is generated from `tests/conformance/differences.yaml`.
"""


def rendered() -> str:
    entries = table.listed()
    recorded = table.paths()
    steps = sum(len(path.read_text().splitlines()) for path in recorded)
    parts = [_HEAD.format(conversations=len(recorded), steps=f"{steps:,}")]
    for title, kind in (("On purpose", "deliberate"), ("Not yet", "not yet")):
        chosen = [entry for entry in entries if entry.kind == kind]
        parts += [f"## {title}\n", *(_section(entry) for entry in chosen)]
    return "\n".join(parts)


def _section(entry: Listed) -> str:
    return f"### {entry.what}\n\n- Kafka: {entry.kafka}\n- Qanat: {entry.qanat}\n- Why: {entry.why}\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(rendered())
    sys.exit(0)
