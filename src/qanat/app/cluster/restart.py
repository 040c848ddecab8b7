"""`qanat cluster restart`: a rolling restart of a local cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.cluster_view import view_of
from qanat.app.cluster.local_cluster import WHOLE_S
from qanat.app.cluster.pid_file import ClusterError, read_pid_file
from qanat.app.terminal.progress import status_line
from qanat.connection.cluster import Cluster
from qanat.model.errors import QanatError


def restart(
    *,
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    target: Target = HERE,
) -> None:
    """Restart the brokers of a local cluster one after another, without an error for its clients.

    Each broker hands over its leaderships, stops, starts, and catches up before the next one stops.

        qanat cluster restart

    Parameters
    ----------
    data_dir:
        The data directory of `cluster up`.
    """
    running = read_pid_file(data_dir)
    if running is None:
        raise ClusterError(f"no cluster runs on {data_dir}: qanat cluster up starts one")

    async def work(cluster: Cluster) -> None:
        with status_line() as report_progress:
            for broker in running.brokers:
                await _wait_for_isr(cluster, report_progress=report_progress)
                report_progress(f"restarting broker {broker.node_id}")
                before = _pid_of(data_dir, broker.node_id)
                # The supervisor restarts a broker that has just died.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(before, signal.SIGTERM)
                await _wait_for_new_pid(data_dir, broker.node_id, before)
                await _wait_for_isr(cluster, report_progress=report_progress)
                print(f"broker {broker.node_id} was restarted")

    addresses = ",".join(broker.address for broker in running.brokers)
    run(target if target != HERE else Target(bootstrap=addresses), work)


async def _wait_for_isr(cluster: Cluster, report_progress: Any) -> None:
    """Return once every partition has all its replicas in sync."""
    deadline = asyncio.get_running_loop().time() + WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        try:
            view = await view_of(cluster)
            if not view.under_replicated and not view.offline:
                return
            report_progress(f"waiting for {view.under_replicated + view.offline} partitions to catch up")
        except QanatError:
            pass
        await asyncio.sleep(0.2)
    raise ClusterError(f"partitions have not caught up in {WHOLE_S:g} s: see qanat cluster status")


async def _wait_for_new_pid(data_dir: str, node_id: int, before: int) -> None:
    deadline = asyncio.get_running_loop().time() + WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        if _pid_of(data_dir, node_id) != before:
            return
        await asyncio.sleep(0.1)
    raise ClusterError(f"broker {node_id} did not come back in {WHOLE_S:g} s: see {data_dir}/broker-{node_id}.log")


def _pid_of(data_dir: str, node_id: int) -> int:
    running = read_pid_file(data_dir)
    if running is None:
        raise ClusterError(f"the cluster on {data_dir} has stopped")
    pid = running.pid_of(node_id)
    if pid is None:
        raise ClusterError(f"broker {node_id} has ended for good: see {data_dir}/broker-{node_id}.log")
    return pid
