"""`qanat diagnose`: what limits a cluster, with evidence and remedy."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.diagnosis.cluster_load import brokers_of, read_load
from qanat.app.terminal.listing import counted
from qanat.app.terminal.printable import printable
from qanat.connection.cluster import Cluster
from qanat.diagnosis.diagnosis import Diagnosis, judge
from qanat.diagnosis.time_split import TimeSplit

SECONDS_MAX = 300
_CAUSES = ("queue", "loop", "disk", "replication", "throttle", "cold_read", "store", "other")


def diagnose(
    *,
    seconds: Annotated[float, Parameter(name=["--seconds", "-s"])] = 15.0,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    target: Target = HERE,
) -> int:
    """Say why a cluster is slow: where the time of requests goes, what limits it, and what to do.

    Watches all brokers for some seconds while clients work, then names what limits them: a slow disk, follower or
    metadata store, a full event loop, a hot partition, tiny batches, clients that are held back, cold reads, unbalanced
    leaders, groups that fall behind. It says nothing where nothing limits.

        qanat diagnose
        qanat diagnose --seconds 30 -o json

    Exit codes: 0 nothing limits, 1 something does.

    Parameters
    ----------
    seconds:
        How long to watch.
    output:
        `table` for people, `json` for programs.
    """
    if not 1 <= seconds <= SECONDS_MAX:
        raise WrongArgumentError(f"--seconds {seconds:g}: write seconds, from 1 to {SECONDS_MAX}")

    async def work(cluster: Cluster) -> Diagnosis:
        brokers = await brokers_of(cluster)
        before = await read_load(cluster, brokers)
        await asyncio.sleep(seconds)
        return judge(before, await read_load(cluster, brokers), brokers)

    found = run(target, work)
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print("\n".join(printable(line) for line in described(found)))
    return 1 if found.findings else 0


def described(found: Diagnosis) -> list[str]:
    """The lines for people."""
    if not found.brokers:
        return ["no broker answered twice: nothing can be said; `qanat cluster status` shows which there are"]
    lines = [
        f"{found.seconds:.0f} s, {counted(len(found.brokers), 'broker')}, {found.requests_per_s:,.0f} requests a second"
    ]
    if found.silent:
        lines.append(f"not seen: broker {', '.join(map(str, found.silent))}")
    lines += ["", "time of requests   " + split_line(found.split)]
    if len(found.brokers) > 1:
        lines += [f"  broker {one.node_id:<10} {split_line(one.split)}" for one in found.brokers]
    lines.append("")
    if not found.findings:
        return [*lines, "Nothing limits this cluster."]
    for number, one in enumerate(found.findings, 1):
        lines.append(f"{number}. {one.summary}")
        lines += [f"   - {evidence}" for evidence in one.evidence]
        lines += [f"   What to do: {one.remedy}.", ""]
    return lines[:-1]


def split_line(split: TimeSplit) -> str:
    """The causes that take at least a percent of the time, the largest first.

    >>> split_line(TimeSplit(disk=8.0, loop=2.0))
    'disk 80 %, loop 20 %'
    """
    shares = sorted(((split.share(cause), cause) for cause in _CAUSES), reverse=True)
    shown = [f"{cause.replace('_', ' ')} {100 * share:.0f} %" for share, cause in shares if share >= 0.01]
    return ", ".join(shown) or "no request took time"
