"""`qanat pipeline stop`: end a run after its micro-batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.client.target import run as connected
from qanat.connection.cluster import Cluster

if TYPE_CHECKING:
    from qanat.model.pipeline_runs import RunState

_LOOK_EVERY_S = 0.3
WITHIN_S = 300.0


def stop(
    name: str,
    /,
    *,
    now: Annotated[bool, Parameter(negative="")] = False,
    within: float = WITHIN_S,
    target: Target = HERE,
) -> int:
    """End a run after its micro-batch, wherever it runs, and wait for that.

        qanat pipeline stop orders
        qanat pipeline stop orders --now

    The exit code is 1 where it has not ended in time. Nothing is lost either way: the next run continues from the
    checkpoint.

    Parameters
    ----------
    name:
        The name of the run.
    now:
        Do not wait for the micro-batch; the next run repeats it, which changes nothing.
    within:
        Seconds to wait until it has ended.
    """
    return 0 if stop_run(name, target, is_now=now, within_s=within) is not None else 1


def stop_run(name: str, target: Target, *, is_now: bool, within_s: float) -> RunState | None:
    """Stop a run and say what became of it; None where it has not ended in time."""
    if not 0 < within_s <= 24 * 60 * 60:
        raise WrongArgumentError(f"--within {within_s:g}: write seconds, above 0")

    async def work(cluster: Cluster) -> RunState | None:
        return await _stopped(cluster, name, is_now, within_s)

    return connected(target, work)


async def _stopped(cluster: Cluster, name: str, is_now: bool, within_s: float) -> RunState | None:
    import getpass
    import os

    from qanat.app.pipelines.run_lookup import find_run
    from qanat.model.pipeline_runs import StopRequest, stop_entry
    from qanat.spark.pipelines.runs.run_processes import is_gone
    from qanat.spark.pipelines.runs.run_topic import RunReader, append, now_ms
    from qanat.spark.pipelines.timestamps import shown

    reader = RunReader(cluster)
    state = find_run(await reader.read_all(cluster.deadline()), name)
    if not state.is_alive(now_ms()) or is_gone(state):
        phase = "lost" if state.ended_ms is None else state.phase
        print(f"pipeline {name} does not run: it is {phase} since {shown(state.ended_ms or state.updated_ms)}")
        return state
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    origin = f"{user} on {os.uname().nodename}"
    request = StopRequest(run_id=state.run_id, is_now=is_now, origin=origin, at_ms=now_ms())
    await append(cluster, [stop_entry(name, request)], cluster.deadline())
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while loop.time() < until:
        known = (await reader.read_all(cluster.deadline())).current.get(name)
        if known is None or known.run_id != state.run_id or known.ended_ms is not None or is_gone(known):
            ended = known if known is not None and known.run_id == state.run_id else state
            phase = ended.phase if ended.ended_ms is not None else "lost"
            print(f"pipeline {name} is {phase}: {ended.rows:,} rows in this run")
            return ended
        await asyncio.sleep(_LOOK_EVERY_S)
    print(
        f"pipeline {name} still finishes its micro-batch on {state.host}, process {state.pid}; it ends after that, "
        "and with --now at once"
    )
    return None
