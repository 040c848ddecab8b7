"""`qanat push refresh`: give a group a topic again, end that, or see how far it is."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.records.topic_positions import Position, offsets_at, parse_position
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.offsets import list_bounds
from qanat.connection.push.link import PushLink
from qanat.model.push_refreshes import PushRefresh
from qanat.wire.push.control import VERSION, Heartbeat
from qanat.wire.push.control import Position as Start

_COLUMNS = ("group", "topic", "refresh", "partition", "state", "start", "end", "attempt")


def refresh(
    group: str | None = None,
    /,
    *,
    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None,
    begin: Annotated[str, Parameter(name="--from", allow_leading_hyphen=True)] = "start",
    cancel: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """Give push consumers of a group a topic again, up to its present end. Without --topic, show how far refreshes are.

        qanat push refresh till --topic prices
        qanat push refresh till --topic prices --from @2h
        qanat push refresh till --topic prices --cancel
        qanat push refresh

    Consumers serve what they have until they have everything again.

    Parameters
    ----------
    group:
        Its name; without it refreshes of all groups are shown.
    topic:
        The topic to send again.
    begin:
        Where to begin: start, an offset, +N, -N, @2h or @2026-01-01T00:00.
    cancel:
        End the refresh that is under way.
    output:
        `table` for people, the others for programs.
    """
    if topic is not None and group is None:
        raise WrongArgumentError("name a group: qanat push refresh GROUP --topic TOPIC")
    if cancel and topic is None:
        raise WrongArgumentError("--cancel needs --topic")
    place = parse_position(begin)
    security = target.resolved().settings.security()
    is_asked = False

    async def listed(cluster: Cluster) -> list[Row]:
        nonlocal is_asked
        deadline = cluster.deadline()
        said = Heartbeat(VERSION, ask="refreshes", group=group or "", topic=topic or "")
        if topic is not None and not is_asked:
            name = "cancel-refresh" if cancel else "refresh"
            starts = [] if cancel else await _starts(cluster, topic, place, deadline)
            said = Heartbeat(VERSION, ask=name, group=group or "", topic=topic, positions=starts)
        is_asked = True
        broker = (await cluster.metadata([], deadline)).brokers[0]
        link = await PushLink.open([(broker.host, broker.port)], deadline, security, "qanat push refresh")
        try:
            answer = await link.ask(said, deadline)
        finally:
            link.close()
        return [row for one in answer.refreshes for row in _rows(one)]

    show(target, watch, listed, lambda rows: print_rows(rows, _COLUMNS, output, spare=("attempt",)))


async def _starts(cluster: Cluster, topic: str, place: Position, deadline: Deadline) -> list[Start]:
    view = await cluster.topic(topic, deadline)
    bounds = await list_bounds(cluster, view, deadline)
    found = await offsets_at(cluster, view, place, bounds, deadline)
    return [Start(topic, number, offset) for number, offset in sorted(found.items())]


def _rows(entry: PushRefresh) -> list[Row]:
    return [
        {
            "group": entry.group,
            "topic": entry.topic,
            "refresh": entry.id,
            "partition": one.partition,
            "state": one.state.value,
            "start": one.start,
            "end": one.end,
            "attempt": one.attempt,
        }
        for one in entry.partitions
    ]
