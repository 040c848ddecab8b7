"""The section of docs/performance-cluster.md that the measurement writes; the rest of the page is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

Row = tuple[str, str, str, str]
"""What, measured, required, verdict."""

_BEGIN, _END = "<!-- failover -->", "<!-- end of failover -->"
_PAGE = f"""# Performance of a cluster

{_BEGIN}
{_END}
"""
_HEAD = """## Three brokers, real processes

Three brokers and their clients on one machine over loopback, metadata in SQLite, three replicas,
`min.insync.replicas=2`, fsync before every acknowledgement (the defaults of `qanat cluster up`). The writer is
librdkafka with `enable.idempotence` and default timeouts, one message every 2 ms to one partition. Written by the
command:

```
make bench-failover ARGS="--markdown docs/performance-cluster.md"
```
"""
_HOW = """\
How it is measured: the *gap* is the longest time between two acknowledgements of one partition that the writer got,
from the last one before its leader went. Before every try the broker that went before is back and in sync, and before a
stop it has been for eleven seconds: librdkafka lets a broker alone for up to ten that has refused it.
Kafka's brokers with their defaults were silent for 10.1 s. *Memory* is the largest broker's, without mapped files; *CPU
when idle* is the busiest broker's share of one processor; *time to elect* runs from kill -9 until a survivor's
metadata names another leader for every partition that the dead broker led.
"""


def section(rows: Sequence[Row], costs: Sequence[Sequence[str]], machine: str) -> str:
    lines = [_HEAD, _table(("what", "measured", "required", "verdict"), rows), ""]
    if costs:
        head = (
            "partitions (3 replicas each)",
            "memory of a broker",
            "CPU when idle",
            "leaders elected",
            "time to elect",
        )
        lines += [_table(head, costs), ""]
    return "\n".join([*lines, f"{machine}\n", _HOW])


def write(page: Path, text: str) -> None:
    """Put the section between its marks; a page that has none gets them at its end."""
    before = page.read_text() if page.exists() else _PAGE
    if _BEGIN not in before:
        before = f"{before.rstrip()}\n\n{_BEGIN}\n{_END}\n"
    head, _, rest = before.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    page.write_text(f"{head}{_BEGIN}\n{text}{_END}{tail}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])
