"""The result as a page, and the same at a terminal. docs/performance/report.md has the same figures: `bench.report`."""

from __future__ import annotations

from bench.peers.report import Result, Table, as_markdown_table

COMPARED = (
    "Every system has its own Python client: rates, and to a lesser degree latencies, are "
    "bounded by the client. The server's CPU time per message, which the kernel counts, compares servers."
)

_HEAD = """\
# Performance compared with other systems

One node of Qanat, NATS JetStream, Redis Streams and RabbitMQ streams: the same machine, the same run, in turns.
A command writes this page; repeat it on your machine:

```
make bench-peers ARGS="--markdown peers.md"
```

`--quick` takes at most five minutes, `--only sync,start` and `--systems qanat,redis` measure less, `--json FILE` is for
programs. A system that is not installed is named, with the command that installs it.
"""
_READING = f"""\
{COMPARED}

A cell holds the median over the rounds, in brackets the lowest and the highest value, and Qanat's figure divided by the
other system's, taken within each round: above 1 is good for rates, below 1 for everything else.
"""
_HOW = """\
## How it is measured

- Each server is a process of its own on loopback with a new data folder, started as its users start it with the
  settings below, one stream of one partition and one replica. Servers and clients use the same processors.
- They take turns within each round. A driver creates a new stream, connects and warms up before the start signal;
  consumers read a stream that was filled before.
- **pipelined**: librdkafka sends batches of up to 10,000 messages (`linger.ms=5`, `acks=all`); nats-py has up to 4,000
  publishes in flight; redis-py sends `XADD` in pipelines of 1,000; rstream sends frames of 500, ten of them
  unconfirmed. **one at a time**: the next is sent when the last is acknowledged.
- **consume**: librdkafka's fetches; NATS's ordered consumer; `XREAD` of up to 1,000; a stream subscription with credit.
- **end to end**: from when a message was due to its arrival in the same process, counted by
  HdrHistogram: a delayed sender does not hide latency. A thread paces all clients; redis-py's waits
  for each answer before it sends the next, the others do not.
- **server CPU per message**: the kernel's figure of the server's process between the start signal and the end.
- **start**: from before the process is created until it answers in its own protocol. **memory**: resident, one second
  later.
- *Durable* means that an acknowledged message has been synced to the disk. A system that cannot do that is not in that
  table. In the other table, all leave flushing to the kernel.
"""


def as_markdown(result: Result) -> str:
    """The whole page."""
    sections = [_HEAD, _READING, *(_section(table) for table in result.tables)]
    if result.notes:
        sections.append(
            "## Not measured\n\n" + "\n".join(f"- {' '.join(note.split())}" for note in result.notes) + "\n"
        )
    facts = [[name, value] for name, value in {**result.machine, **result.settings}.items()]
    sections += [_HOW, "## Machine, versions, settings\n\n" + as_markdown_table(("what", "value"), facts)]
    return "\n".join(sections)


def _section(table: Table) -> str:
    body = as_markdown_table(table.headings, table.rows) if table.lines else "Nothing was measured.\n"
    left_out = "".join(f"\n{name} is not in this table: {reason}.\n" for name, reason in table.left_out.items())
    return f"## {table.title}\n\n{body}{left_out}"


def print_result(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console()
    if not console.is_terminal:
        console.width = 240
    for table in result.tables:
        shown = RichTable(box=None, pad_edge=False, title=table.title, title_justify="left")
        for heading in table.headings:
            shown.add_column(heading)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
        for name, reason in table.left_out.items():
            console.print(f"{name} is not in this table: {reason}.", markup=False)
        console.print()
    console.print(COMPARED)
    for note in result.notes:
        console.print(f"Note: {note}", markup=False)
    for name, value in {**result.machine, **result.settings}.items():
        console.print(f"{name}: {value}", markup=False)
