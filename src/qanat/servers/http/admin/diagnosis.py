"""Why is this slow? The diagnosis of the cluster over HTTP (`diagnosis` judges, `load_watch` reads)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from qanat.diagnosis.diagnosis import Diagnosis, judge
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters
from qanat.servers.http.operations import Operation


class DiagnosisQuery(Parameters, frozen=True):
    """How far to look back."""

    seconds: Annotated[int, Meta(ge=1, le=60)] = 15
    """The length of the window; the first answers are about a shorter one."""


async def diagnose(exchange: Exchange) -> Diagnosis:
    context, caller = exchange.context, exchange.caller
    context.gateway.require_describe(caller, "the diagnosis of the cluster")
    before, after = await context.load.window(exchange.query.seconds)
    found = judge(before, after, sorted(context.broker.metadata.image.brokers))
    sees = context.gateway.group_filter(caller)
    findings = [
        one
        for one in found.findings
        if (one.topic is None or context.gateway.may_describe_topic(caller, one.topic))
        and (one.group is None or sees is None or sees(one.group))
    ]
    return replace(found, findings=findings)


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/diagnosis",
        diagnose,
        "What limits the cluster: the time of requests by cause, findings with evidence and remedy",
        "cluster",
        query=DiagnosisQuery,
        answer=Diagnosis,
    ),
)
