"""`qanat dlq show`: one dead letter, whole."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.dead_letters.list import row_of
from qanat.app.records.json_envelope import encode_envelope
from qanat.app.terminal.printable import printable, printable_json
from qanat.connection.cluster import Cluster
from qanat.connection.dead_letters.reading import FoundLetter, read_letters
from qanat.connection.dead_letters.selection import EVERY_LETTER
from qanat.connection.offsets import list_bounds
from qanat.wire.records import Record


def show(
    topic: str,
    place: str,
    /,
    *,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
    target: Target = HERE,
) -> None:
    """Show one dead letter: its origin, and the record as it was.

        qanat dlq show orders.dead 0:17
        qanat dlq show orders.dead 0:17 -o json

    With -o json the record is an envelope that `qanat produce --json-envelope` reads.

    Parameters
    ----------
    topic:
        The topic of dead letters.
    place:
        Partition and offset of the letter, as `qanat dlq list` shows them: 0:17.
    output:
        `text` for people, `json` for programs.
    """
    partition, offset = _place(place)

    async def work(cluster: Cluster) -> FoundLetter | None:
        deadline = cluster.deadline()
        view = await cluster.topic(topic, deadline)
        if partition not in view.leaders:
            raise WrongArgumentError(f"topic {topic} has no partition {partition}: it has 0 to {len(view.leaders) - 1}")
        start, end = (await list_bounds(cluster, view, deadline, is_committed_only=True))[partition]
        ranges = {partition: (offset, offset + 1)} if start <= offset < end else {}
        async for found in read_letters(cluster, topic, ranges, EVERY_LETTER):
            for one in found:
                return one
        return None

    found = run(target, work)
    if found is None:
        raise WrongArgumentError(f"there is no dead letter at {place} in {topic}: qanat dlq list shows those there are")
    _print(found, output)


def _place(text: str) -> tuple[int, int]:
    partition, separator, offset = text.partition(":")
    if not (separator and partition.isdecimal() and offset.isdecimal() and len(offset) < 19 and len(partition) < 10):
        raise WrongArgumentError(f"{text!r} should read partition:offset, for example 0:17")
    return int(partition), int(offset)


def _print(found: FoundLetter, output: str) -> None:
    row, origin = row_of(found), found.letter.origin
    original = Record(
        origin.offset, int(str(row["timestamp"])), found.record.key, found.record.value, found.letter.headers
    )
    if output == "json":
        print(encode_envelope(origin.topic, origin.partition, original))
        return
    print(printable(f"from       {origin.topic}-{origin.partition} at offset {origin.offset}"))
    print(printable(f"error      {origin.message}"))
    if origin.group is not None:
        print(printable(f"group      {origin.group}"))
    if origin.delivery_count is not None:
        print(f"deliveries {origin.delivery_count}")
    print(f"redriven   {'yes' if found.is_redriven else 'no'}")
    print(printable_json(encode_envelope(origin.topic, origin.partition, original)))
