"""`qanat push subscribe`: print records as they are pushed."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.push.connecting import client_settings
from qanat.app.records.record_printer import record_encoder
from qanat.client.push.consumers import AsyncPushConsumer
from qanat.connection.push.refreshing import Refresh
from qanat.wire.records import Record


def subscribe(
    *topics: str,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    mode: Literal["log", "queue", "all"] | None = None,
    begin: Annotated[Literal["earliest", "latest"], Parameter(name="--from")] = "earliest",
    number: Annotated[int | None, Parameter(name=["--number", "-n"])] = None,
    form: Annotated[str, Parameter(name=["--format", "-f"], allow_leading_hyphen=True)] = "%v\\n",
    json_envelope: Annotated[bool, Parameter(name=["--json-envelope", "-J"], negative="")] = False,
    credit: int = 1_000,
    target: Target = HERE,
) -> None:
    r"""Print records of topics as soon as they can be read.

        qanat push subscribe prices
        qanat push subscribe prices --group till -f '%k %v\n'
        qanat push subscribe jobs --group workers --mode queue -n 10

    A record counts as processed when it is printed. RESET and READY of a refresh are printed on standard error.

    Parameters
    ----------
    topics:
        Their names.
    group:
        The group, for the modes log and queue.
    mode:
        Who gets a record: one member of the group in order (log), any worker (queue), every subscriber (all).
    begin:
        Where to begin without a commit of the group.
    number:
        End after so many records.
    form:
        Form of a record, as of `qanat consume`.
    json_envelope:
        Print each record as a line of JSON.
    credit:
        Records that may be on their way without an acknowledgement.
    """
    if not topics:
        raise WrongArgumentError("name a topic: qanat push subscribe TOPIC")
    if mode in ("log", "queue") and group is None:
        raise WrongArgumentError(f"--mode {mode} needs --group")
    if credit < 1:
        raise WrongArgumentError(f"--credit {credit} lets no record come; give 1 or more")
    encode = record_encoder(form, is_envelope=json_envelope, is_raw=False)

    async def printed() -> None:
        consumer = AsyncPushConsumer(
            client_settings(target),
            topics,
            group_id=group or "",
            mode=mode or "",
            auto_offset_reset=begin,
            credit_records=credit,
            client_id="qanat push subscribe",
            on_reset=lambda refresh: _note("RESET", refresh),
            on_ready=lambda refresh: _note("READY", refresh),
        )
        left = number
        async with consumer:
            while left is None or left > 0:
                got = await consumer.next()
                record = Record(got.offset, got.timestamp_ms, got.key, got.value, got.headers)
                sys.stdout.buffer.write(encode(got.topic, got.partition, record))
                sys.stdout.buffer.flush()
                consumer.done()
                left = None if left is None else left - 1

    asyncio.run(printed())


def _note(frame: str, refresh: Refresh) -> None:
    """A refresh begins, or is complete, on standard error: what is between them is printed as any record."""
    for at, extent in refresh.partitions.items():
        line = f"{frame} {refresh.id}: {at.topic} {at.partition}, offsets {extent.start} to {extent.end}"
        print(line, file=sys.stderr, flush=True)
