"""`qanat cluster up`, `restart` and `down`: several brokers on this machine, as one real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from qanat.app.cluster.plan import MEMORY_FILE, ClusterPlan, plan_cluster
from qanat.app.cluster.supervisor import ClusterError, Supervisor
from qanat.app.cluster.view import view_of
from qanat.app.events import configure
from qanat.app.progress import told_status
from qanat.app.session import HERE, Target, WrongArgumentError, assignments, run
from qanat.connection.cluster import Cluster
from qanat.model.errors import QanatError
from qanat.telemetry.events import LogLevel

BROKERS_MAX = 100
_ETCD_PORT = 2379
_WHOLE_S = 120.0
_DOWN_S = 60.0


def up(
    *,
    brokers: Annotated[int, Parameter(name=["--brokers", "-n"])] = 3,
    store: Literal["sqlite", "etcd"] = "sqlite",
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    port: int = 9092,
    http_port: Annotated[int, Parameter(help="Port of the first broker's HTTP door; -1 for none.")] = 8080,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    restart_after: float = 5.0,
    restart: bool = True,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative="")] = False,
    log_level: LogLevel = "info",
) -> int:
    """Run a cluster on this machine until it is told to stop (Ctrl-C or SIGTERM).

    Broker i (from 0) answers Kafka clients on 9092 + i, HTTP on 8080 + i and other brokers on 19092 + i. Topics have
    three replicas where there are three brokers, and a write is acknowledged when two of them have it on
    disk. Each broker's log is DATA/broker-<i>.log.

        qanat cluster up
        qanat cluster up --brokers 5 --data-dir /var/lib/qanat -X num.partitions=6
        qanat cluster up --store etcd --detach

    Try it: kill -9 one of the pids that `qanat cluster status` shows, and watch the others take over.

    Parameters
    ----------
    brokers:
        How many.
    store:
        Where the cluster's metadata lives: in a file that they share, or in an etcd that is started beside them.
    data_dir:
        Where everything is kept.
    port:
        Port of the first broker.
    settings:
        Any setting, for every broker, as often as needed: -X name=value.
    restart_after:
        Seconds after which a broker that was killed is started again.
    restart:
        Whether a broker that was killed is started again.
    detach:
        Return when the cluster serves; `qanat cluster down` stops it.
    log_level:
        The least important events of the supervisor that are logged.
    """
    if not 1 <= brokers <= BROKERS_MAX:
        raise WrongArgumentError(f"--brokers {brokers}: write a number from 1 to {BROKERS_MAX}")
    if (running := _memory(data_dir)) is not None:
        raise ClusterError(
            f"a cluster of process {running['supervisor']} runs on {data_dir}: stop it with qanat cluster down"
        )
    if detach:
        return _detached(data_dir)
    configure("text", log_level)
    told = [f"{name}={value}" for name, value in assignments(settings or []).items()]
    members = []
    if store == "etcd":
        from qanat.app.etcd_server import find_etcd, plan_members, start_members

        plans = plan_members(Path(data_dir) / "etcd", 1, _ETCD_PORT)
        with told_status() as tell:
            tell("starting etcd")
            members = start_members(find_etcd(), plans)
        told = ["metadata.store=etcd", f"metadata.etcd.endpoints={plans[0].client_url}", *told]
    plan = plan_cluster(data_dir, brokers, port, None if http_port < 0 else http_port, told)
    try:
        return serve_plan(plan, restart_after if restart else None)
    finally:
        for member in members:
            member.stop()


def serve_plan(plan: ClusterPlan, restart_after_s: float | None) -> int:
    """Run the brokers of a plan until told to stop; the exit code."""
    return asyncio.run(_serve(plan, restart_after_s))


async def _serve(plan: ClusterPlan, restart_after_s: float | None) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    supervisor = Supervisor(plan, restart_after_s)
    try:
        with told_status() as tell:
            tell(f"starting {len(plan.brokers)} brokers")
            starting = asyncio.create_task(supervisor.start())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return 0
            stopping.cancel()
            await starting
            tell("waiting for them to find each other")
            await _gathered(plan)
        print(_banner(plan, supervisor), flush=True)
        ends = {asyncio.create_task(stop.wait()), asyncio.create_task(supervisor.all_given_up.wait())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if supervisor.all_given_up.is_set():
            raise ClusterError(f"no broker is left: see the logs in {plan.data_dir}")
        print("stopping", file=sys.stderr, flush=True)
    finally:
        await supervisor.stop()
    return 0


async def _gathered(plan: ClusterPlan) -> None:
    """Return once the brokers know each other."""
    addresses = [("127.0.0.1", broker.port) for broker in plan.brokers]
    deadline = asyncio.get_running_loop().time() + _WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        known = []
        for address in addresses:
            try:
                async with Cluster([address], "qanat-cluster-up") as cluster:
                    known.append(len((await cluster.metadata([], cluster.deadline())).brokers))
            except QanatError:
                break
        if known == [len(addresses)] * len(addresses):
            return
        await asyncio.sleep(0.1)
    raise ClusterError(f"the brokers did not find each other in {_WHOLE_S:g} s: see the logs in {plan.data_dir}")


def _banner(plan: ClusterPlan, supervisor: Supervisor) -> str:
    pids = supervisor.pids()
    lines = [f"Qanat: {len(plan.brokers)} brokers", ""]
    for broker in plan.brokers:
        http = "" if broker.http_port is None else f"  http://127.0.0.1:{broker.http_port}"
        lines.append(f"  broker {broker.node_id}  kafka {broker.address}{http}  pid {pids[broker.node_id]}")
    bootstrap = ",".join(broker.address for broker in plan.brokers)
    return "\n".join([*lines, "", f"  bootstrap  {bootstrap}", f"  data       {plan.data_dir}", ""])


def _detached(data_dir: str) -> int:
    """The same command again, in the background; returns when it serves."""
    Path(data_dir).mkdir(parents=True, exist_ok=True)
    arguments = [word for word in sys.argv[1:] if word not in ("-d", "--detach")]
    log = Path(data_dir) / "cluster.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    deadline = time.monotonic() + _WHOLE_S
    with told_status() as tell:
        tell("starting the cluster")
        while time.monotonic() < deadline:
            if process.poll() is not None:
                lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
                raise ClusterError(f"the cluster did not start: {lines[-1][:300] if lines else 'no reason was told'}")
            if _memory(data_dir) is not None:
                print(f"the cluster serves; qanat cluster down --data-dir {data_dir} stops it")
                return 0
            time.sleep(0.1)
    raise ClusterError(f"the cluster did not start in {_WHOLE_S:g} s: see {log}")


def restart(
    *,
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    target: Target = HERE,
) -> None:
    """Restart the brokers of a local cluster one after another, without an error for its clients.

    Each hands over what it leads, stops, comes back, and has caught up before the next one's turn.

        qanat cluster restart

    Parameters
    ----------
    data_dir:
        The data directory that `cluster up` was told.
    """
    memory = _memory(data_dir)
    if memory is None:
        raise ClusterError(f"no cluster runs on {data_dir}: qanat cluster up starts one")

    async def work(cluster: Cluster) -> None:
        with told_status() as tell:
            for broker in memory["brokers"]:
                await _whole(cluster, tell_waiting=tell)
                tell(f"restarting broker {broker['id']}")
                os.kill(_pid_of(data_dir, broker["id"]), signal.SIGTERM)
                await _came_back(data_dir, broker["id"], broker["pid"])
                await _whole(cluster, tell_waiting=tell)
                print(f"broker {broker['id']} was restarted")

    addresses = ",".join(broker["address"] for broker in memory["brokers"])
    run(target if target != HERE else Target(bootstrap=addresses), work)


async def _whole(cluster: Cluster, tell_waiting: Any) -> None:
    """Return once every partition has all its replicas in sync."""
    deadline = asyncio.get_running_loop().time() + _WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        try:
            view = await view_of(cluster)
            if not view.under_replicated and not view.offline:
                return
            tell_waiting(f"waiting for {view.under_replicated + view.offline} partitions to catch up")
        except QanatError:
            pass
        await asyncio.sleep(0.2)
    raise ClusterError(f"partitions have not caught up in {_WHOLE_S:g} s: see qanat cluster status")


async def _came_back(data_dir: str, node_id: int, before: int) -> None:
    deadline = asyncio.get_running_loop().time() + _WHOLE_S
    while asyncio.get_running_loop().time() < deadline:
        if _pid_of(data_dir, node_id) != before:
            return
        await asyncio.sleep(0.1)
    raise ClusterError(f"broker {node_id} did not come back in {_WHOLE_S:g} s: see {data_dir}/broker-{node_id}.log")


def down(*, data_dir: Annotated[str, Parameter(metavar="PATH")] = "data") -> int:
    """Stop a local cluster that was started with `cluster up --detach`, or anywhere else on this machine.

        qanat cluster down

    Parameters
    ----------
    data_dir:
        The data directory that `cluster up` was told.
    """
    memory = _memory(data_dir)
    if memory is None:
        raise ClusterError(f"no cluster runs on {data_dir}")
    os.kill(memory["supervisor"], signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_S
    with told_status() as tell:
        tell("stopping the brokers")
        while _is_running(memory["supervisor"]):
            if time.monotonic() > deadline:
                raise ClusterError(f"process {memory['supervisor']} has not stopped in {_DOWN_S:g} s")
            time.sleep(0.1)
    print("the cluster is stopped")
    return 0


def _memory(data_dir: str) -> dict[str, Any] | None:
    """What the supervisor of a data directory left; None where none runs."""
    try:
        memory: dict[str, Any] = json.loads((Path(data_dir) / MEMORY_FILE).read_text())
    except (OSError, ValueError):
        return None
    return memory if _is_running(memory["supervisor"]) else None


def _pid_of(data_dir: str, node_id: int) -> int:
    memory = _memory(data_dir)
    if memory is None:
        raise ClusterError(f"the cluster on {data_dir} has stopped")
    return int(next(broker["pid"] for broker in memory["brokers"] if broker["id"] == node_id))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # One that has ended and that nobody has waited for is no cluster.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True
