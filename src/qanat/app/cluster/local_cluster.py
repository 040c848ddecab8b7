"""The brokers of a cluster plan, run in processes until the operator stops them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.app.cluster.cluster_plan import ClusterPlan
from qanat.app.cluster.local_security import asked_as_broker, listeners_of, with_secrets
from qanat.app.cluster.pid_file import ClusterError
from qanat.app.cluster.supervisor import Supervisor
from qanat.app.node.service_manager import ServiceManager
from qanat.app.terminal.progress import status_line
from qanat.connection.cluster import Cluster
from qanat.model.errors import QanatError
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.app.node.etcd_server import EtcdMember


BROKERS_MAX = 100
LOOK_S = 0.5
WHOLE_S = 120.0


def serve_plan(plan: ClusterPlan, restart_after_s: float | None, etcd: EtcdMember | None = None) -> int:
    """Run the brokers of a plan until a signal stops them; returns the exit code. The caller holds the lock."""
    manager = ServiceManager(os.environ)
    return asyncio.run(_serve(with_secrets(plan), restart_after_s, etcd, manager))


async def _serve(
    plan: ClusterPlan, restart_after_s: float | None, etcd: EtcdMember | None, manager: ServiceManager
) -> int:
    async with manager.watched():
        return await _run(plan, restart_after_s, etcd, manager)


async def _run(
    plan: ClusterPlan, restart_after_s: float | None, etcd: EtcdMember | None, manager: ServiceManager
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    supervisor = Supervisor(plan, restart_after_s)
    watching = asyncio.create_task(_watch_etcd(etcd, restart_after_s)) if etcd is not None else None
    try:
        with status_line() as report_progress:
            report_progress(f"starting {len(plan.brokers)} brokers")
            starting = asyncio.create_task(_start(supervisor, report_progress))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return 0
            stopping.cancel()
            await starting
        print(_banner(plan, supervisor), flush=True)
        manager.ready(f"{len(plan.brokers)} brokers")
        ends = {asyncio.create_task(stop.wait()), asyncio.create_task(supervisor.all_failed.wait())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if supervisor.all_failed.is_set():
            raise ClusterError(f"no broker is left: see the logs in {plan.data_dir}")
        manager.stopping()
        print("stopping", file=sys.stderr, flush=True)
    finally:
        if watching is not None:
            watching.cancel()
        await supervisor.stop()
    return 0


async def _start(supervisor: Supervisor, report_progress: Callable[[str], object]) -> None:
    await supervisor.start()
    report_progress("waiting until the brokers find each other")
    await _wait_for_all_brokers(supervisor.plan)


async def _watch_etcd(member: EtcdMember, restart_after_s: float | None) -> None:
    """Restart the local etcd when it ends: brokers serve without it, but metadata cannot change meanwhile."""
    while True:
        await asyncio.sleep(LOOK_S)
        if not member.has_ended():
            continue
        if restart_after_s is None:
            log_event("etcd ended", level="error", log=str(member.log))
            return
        log_event("etcd ended: restarting it", level="warning", log=str(member.log))
        await asyncio.sleep(restart_after_s)
        member.stop()
        member.start()


async def _wait_for_all_brokers(plan: ClusterPlan) -> None:
    """Return once every broker sees all the others."""
    asked = [asked_as_broker(plan, broker) for broker in plan.brokers]
    deadline = asyncio.get_running_loop().time() + WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        known = []
        for address, security in asked:
            try:
                async with Cluster([address], "qanat-cluster-up", security=security) as cluster:
                    known.append(len((await cluster.metadata([], cluster.deadline())).brokers))
            except QanatError:
                break
        if known == [len(asked)] * len(asked):
            return
        await asyncio.sleep(0.1)
    raise ClusterError(f"the brokers did not find each other in {WHOLE_S:g} s: see the logs in {plan.data_dir}")


def _banner(plan: ClusterPlan, supervisor: Supervisor) -> str:
    pids = supervisor.pids()
    served = listeners_of(plan, plan.brokers[0]).http
    scheme = "https" if served is not None and served.has_tls else "http"
    lines = [f"Qanat: {len(plan.brokers)} brokers", ""]
    for broker in plan.brokers:
        http = "" if broker.http_port is None else f"  {scheme}://127.0.0.1:{broker.http_port}"
        lines.append(f"  broker {broker.node_id}  kafka {broker.address}{http}  pid {pids[broker.node_id]}")
    bootstrap = ",".join(broker.address for broker in plan.brokers)
    users = [one.split("=", 1)[1] for one in plan.settings if one.startswith("sasl.plain.credentials.file=")]
    users_line = [f"  users      {users[-1]}"] if users else []
    return "\n".join([*lines, "", f"  bootstrap  {bootstrap}", f"  data       {plan.data_dir}", *users_line, ""])
