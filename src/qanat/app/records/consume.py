"""`qanat consume`: print records of a topic."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.client_settings import ClientSettings
from qanat.app.client.target import HERE, Target, run
from qanat.app.records.consume_plan import ReadingPlan, places
from qanat.app.records.group_reader import read_as_member
from qanat.app.records.record_filter import RecordFilter
from qanat.app.records.record_printer import RecordPrinter, record_encoder
from qanat.connection.cluster import Cluster
from qanat.connection.fetching import FetchLimits
from qanat.connection.records.filter_expression import Condition
from qanat.connection.records.topic_reading import read

Flag = Annotated[bool, Parameter(negative="")]


def consume(
    topic: str,
    /,
    *,
    begin: Annotated[str | None, Parameter(name=["--from", "--offset"], allow_leading_hyphen=True)] = None,
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    exit_at_end: Annotated[bool, Parameter(name=["--exit-at-end", "-e"], negative="")] = False,
    number: Annotated[int | None, Parameter(name=["--number", "-n"])] = None,
    tail: int | None = None,
    partitions: Annotated[list[int] | None, Parameter(name=["--partition", "-p"], negative="")] = None,
    form: Annotated[str, Parameter(name=["--format", "-f"], allow_leading_hyphen=True)] = "%v\\n",
    json_envelope: Annotated[bool, Parameter(name=["--json-envelope", "-J"], negative="")] = False,
    raw: Flag = False,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    commit: bool | None = None,
    where: Annotated[str | None, Parameter(name=["--where", "-w"], allow_leading_hyphen=True)] = None,
    grep: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    key: str | None = None,
    headers: Annotated[list[str] | None, Parameter(name=["--header", "-H"], negative="")] = None,
    committed_only: Flag = False,
    target: Target = HERE,
) -> None:
    r"""Print records of a topic, and wait for more unless an end is set.

        qanat consume orders -e
        qanat consume orders --from @2h --until @1h --grep refund
        qanat consume orders --tail 5 -f '%p/%o %k: %v\n'
        qanat consume orders --where 'json.amount > 100 and key != "test"' -n 3
        qanat consume orders --group billing
        qanat consume orders -e --json-envelope | jq .value

    Places are: start, end, an offset, +N from the start, -N from the end, @2h ago, @2026-01-01T00:00 (UTC), now,
    @+10m from now.

    A condition of --where knows key, value, json (the value), headers, partition, offset and timestamp; and, or, not;
    == != < <= > >= in; matches(text, expression), startswith, endswith, lower, len, int, float. A field that a record
    lacks is None.

    Parameters
    ----------
    topic:
        Its name.
    begin:
        Where to begin; or a range, begin:end. Default: the start.
    until:
        Where to end (exclusive): a place; the command waits for a time in the future.
    exit_at_end:
        End with the last record of now.
    number:
        End after so many records.
    tail:
        Print the last so many records of each partition, and end.
    partitions:
        Only this partition, as often as needed.
    form:
        Form of a record: %t topic, %p partition, %o offset, %k key, %v value (%s), %T timestamp, %h headers,
        %K %V lengths; {hex} and {base64} behind %k or %v; \n \t \xNN.
    json_envelope:
        One JSON object per line, which `qanat produce --json-envelope` reads unchanged.
    raw:
        Print bytes unchanged on a terminal as well; otherwise control characters are shown there as \\x1b.
    group:
        Join this group, share the topic with its other members, and continue at its committed offsets; --from is where
        to begin where it has none.
    commit:
        With --group, commit what was printed; --no-commit commits nothing.
    where:
        Only records that meet this condition.
    grep:
        Only records whose value matches this regular expression.
    key:
        Only records with this key.
    headers:
        Only records with this header: name, or name=value.
    committed_only:
        Skip records of transactions that are not committed.
    """
    settings = target.resolved().settings
    group = settings.group if group is None else group
    begin = begin or settings.begin
    first, last = places(begin, until, is_to_end=exit_at_end, tail=tail)
    condition = Condition(where) if where is not None else None
    wanted = RecordFilter(
        _expression(grep), key.encode() if key is not None else None, _headers(headers or []), condition
    )
    if number is not None and number < 1:
        raise WrongArgumentError("-n must be at least 1")
    _check_group(group, commit, is_apart=bool(partitions) or tail is not None)
    printer = RecordPrinter(wanted, record_encoder(form, is_envelope=json_envelope, is_raw=raw), number)
    limits = _limits(settings, is_committed_only=committed_only)
    plan = ReadingPlan(topic, first, last, begin, tuple(dict.fromkeys(partitions or ())), limits)

    async def work(cluster: Cluster) -> None:
        if group is not None:
            await read_as_member(cluster, plan, group, printer, is_committing=commit is not False)
            return
        reading = await plan.reading(cluster)
        async for records in read(cluster, reading):
            printer.print(reading, records)
            if printer.is_done:
                return

    run(target, work)


def _limits(settings: ClientSettings, *, is_committed_only: bool) -> FetchLimits:
    default = FetchLimits()
    wait_ms = settings.number("fetch.max.wait.ms", 0)
    return FetchLimits(
        max_wait_ms=default.max_wait_ms if wait_ms is None else wait_ms,
        max_bytes=settings.number("fetch.max.bytes", 1) or default.max_bytes,
        partition_bytes=settings.number("max.partition.fetch.bytes", 1) or default.partition_bytes,
        is_committed_only=is_committed_only or settings.is_committed_only,
    )


def _check_group(group: str | None, commit: bool | None, *, is_apart: bool) -> None:
    if group is None and commit is not None:
        raise WrongArgumentError("--commit and --no-commit are for --group")
    if group == "":
        raise WrongArgumentError("--group needs a name")
    if group is not None and is_apart:
        raise WrongArgumentError("with --group the group decides which partitions we read, and where: no -p, no --tail")


def _expression(grep: str | None) -> re.Pattern[bytes] | None:
    try:
        return re.compile(grep.encode()) if grep is not None else None
    except re.error as fault:
        raise WrongArgumentError(f"--grep {grep}: {fault}") from None


def _headers(texts: list[str]) -> tuple[tuple[str, bytes | None], ...]:
    split = [text.partition("=") for text in texts]
    return tuple((name, value.encode() if separator else None) for name, separator, value in split)
