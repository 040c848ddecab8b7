"""`POST /api/v1/topics/{topic}/dead-letters/redrive`: letters back to where they come from, each exactly once.

A request redrives a bounded number of letters and says whether there are more: a client repeats it until
`is_complete`. Nothing is kept between two requests but the marks, so that any broker can go on.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from qanat.connection.dead_letters.redrive import (
    TRANSACTION_RECORDS_MAX,
    Redrive,
    RedriveFencedError,
    RedriveOptions,
)
from qanat.servers.http.dead_letters.selecting import Wanted
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.gateway_cluster import GatewayCluster
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem

_PACED_S = 10
"""How many seconds of letters one request redrives where there is a rate."""


class RedriveBody(RequestBody, Wanted, frozen=True):
    """Which letters, and how."""

    by_key: bool = False
    """Let the hash of the key choose the partition."""
    dry_run: bool = False
    """Only say what would be done."""
    max_records: Annotated[int, Meta(ge=1, le=TRANSACTION_RECORDS_MAX)] = TRANSACTION_RECORDS_MAX
    """Redrive so many letters at most with this request."""
    records_per_second: Annotated[int, Meta(ge=1)] | None = None
    """At most so many letters a second; a request then takes ten seconds at most."""


class Redriven(msgspec.Struct):
    """What became of the letters."""

    redriven: int
    to: dict[str, int]
    """Redriven letters by topic."""
    passed_over: int
    done_before: int
    without_origin: int
    topic_gone: int
    is_complete: bool
    """False: repeat the request to go on."""


async def redrive_dead_letters(exchange: Exchange) -> Redriven:
    body: RedriveBody = exchange.body
    topic = exchange.path["topic"]
    selection = body.selection()
    cluster = GatewayCluster(exchange.context.gateway, exchange.caller)
    ranges = await body.ranges(cluster, topic)
    rate = body.records_per_second
    most = body.max_records if rate is None else min(body.max_records, rate * _PACED_S)
    options = RedriveOptions(selection, body.by_key, rate, most, body.dry_run)
    try:
        outcome = await Redrive(cluster, topic, options).run(ranges)
    except RedriveFencedError as fault:
        raise Problem(409, str(fault), error=fault.code) from None
    return Redriven(
        outcome.redriven,
        outcome.to,
        outcome.passed_over,
        outcome.done_before,
        outcome.without_origin,
        outcome.topic_gone,
        outcome.is_complete,
    )


OPERATIONS = (
    Operation(
        "POST",
        "/api/v1/topics/{topic}/dead-letters/redrive",
        redrive_dead_letters,
        "Write dead letters back to where they come from",
        "dead letters",
        body=RedriveBody,
        answer=Redriven,
        waits=True,
    ),
)
