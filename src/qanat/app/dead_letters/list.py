"""`qanat dlq list`: dead letters, with where they come from and why."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target, run
from qanat.app.dead_letters.letter_options import EVERY, LetterOptions
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster
from qanat.connection.dead_letters.reading import FoundLetter, read_letters

COLUMNS = (
    "partition",
    "offset",
    "topic",
    "topic_partition",
    "topic_offset",
    "group",
    "deliveries",
    "error",
    "timestamp",
    "key",
    "redriven",
)


def list_letters(
    topic: str,
    /,
    *,
    letters: LetterOptions = EVERY,
    pending: Annotated[bool, Parameter(negative="")] = False,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = 1000,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """List the dead letters of a topic: where each comes from, and why it is one.

        qanat dlq list orders.dead
        qanat dlq list orders.dead --error timeout --from @2h
        qanat dlq list orders.dead --pending --where 'json.amount > 100' -o json

    Letters of share groups, of pipelines on Spark and of clients have the same headers. Records without them are not
    listed: `qanat consume` shows them.

    Parameters
    ----------
    topic:
        The topic of dead letters.
    pending:
        Only letters that were not redriven.
    number:
        End after so many letters.
    output:
        `table` for people, the others for programs.
    """
    selection = letters.selection()

    async def work(cluster: Cluster) -> list[Row]:
        rows: list[Row] = []
        async for found in read_letters(cluster, topic, await letters.ranges(cluster, topic), selection):
            rows += [row_of(one) for one in found if not (pending and one.is_redriven)]
            if len(rows) >= number:
                break
        return rows[:number]

    print_rows(run(target, work), COLUMNS, output, spare=("key", "timestamp", "deliveries", "group"))


def row_of(found: FoundLetter) -> Row:
    """A letter as a row of a listing."""
    origin, record = found.letter.origin, found.record
    return {
        "partition": found.partition,
        "offset": record.offset,
        "topic": origin.topic,
        "topic_partition": origin.partition,
        "topic_offset": origin.offset,
        "group": origin.group,
        "deliveries": origin.delivery_count,
        "error": origin.message,
        "timestamp": record.timestamp if origin.timestamp_ms is None else origin.timestamp_ms,
        "key": None if record.key is None else record.key.decode("utf-8", "backslashreplace"),
        "redriven": found.is_redriven,
    }
