"""`qanat cluster up`, `restart` and `down`: several brokers on this machine, as one real cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qanat.app.cluster.note import ClusterError, held, is_held, read_note
from qanat.app.cluster.plan import ClusterPlan, plan_cluster
from qanat.app.cluster.supervisor import Supervisor, require_free_port
from qanat.app.cluster.view import view_of
from qanat.app.node.event_log import configure
from qanat.app.session import HERE, Target, WrongArgumentError, assignments, run
from qanat.app.terminal.progress import told_status
from qanat.connection.cluster import Cluster
from qanat.model.errors import QanatError
from qanat.telemetry.events import LogLevel, log_event

if TYPE_CHECKING:
    from qanat.app.node.etcd_server import EtcdMember

BROKERS_MAX = 100
_LOOK_S = 0.5
_WHOLE_S = 120.0
_DOWN_S = 60.0


def up(
    *,
    brokers: Annotated[int, Parameter(name=["--brokers", "-n"])] = 3,
    store: Literal["sqlite", "etcd"] = "sqlite",
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    port: int = 9092,
    http_port: Annotated[int, Parameter(help="Port of the first broker's HTTP door; -1 for none.")] = 8080,
    etcd_port: Annotated[
        int, Parameter(help="Port of the etcd that is started; it takes the next one as well.")
    ] = 2379,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    restart_after: float = 5.0,
    restart: bool = True,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative="")] = False,
    log_level: LogLevel = "info",
) -> int:
    """Run a cluster on this machine until it is told to stop (Ctrl-C or SIGTERM).

    Broker i (from 0) answers Kafka clients on 9092 + i, HTTP on 8080 + i and other brokers on 19092 + i. Topics have
    three replicas where there are three brokers, and a write is acknowledged when two of them have it on
    disk. The logs of brokers are broker-0.log and so on in the data directory.

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
    told = [f"{name}={value}" for name, value in assignments(settings or []).items()]
    if detach:
        flags: dict[str, object] = {"brokers": brokers, "store": store, "data-dir": data_dir, "port": port}
        flags |= {"http-port": http_port, "etcd-port": etcd_port}
        flags |= {"restart-after": restart_after, "log-level": log_level}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        words += ["--restart" if restart else "--no-restart", *(word for one in told for word in ("-X", one))]
        return _detached(data_dir, words)
    configure("text", log_level)
    restart_after_s = restart_after if restart else None
    shown_http_port = None if http_port < 0 else http_port
    with held(data_dir):
        if store == "sqlite":
            return serve_plan(plan_cluster(data_dir, brokers, port, shown_http_port, told), restart_after_s)
        with _own_etcd(data_dir, etcd_port) as member:
            told = ["metadata.store=etcd", f"metadata.etcd.endpoints={member.plan.client_url}", *told]
            plan = plan_cluster(data_dir, brokers, port, shown_http_port, told)
            return serve_plan(plan, restart_after_s, member)


@contextlib.contextmanager
def _own_etcd(data_dir: str, port: int) -> Iterator[EtcdMember]:
    from qanat.app.node.etcd_server import find_etcd, plan_members, start_members

    with told_status() as tell:
        tell("starting etcd")
        plans = plan_members(Path(data_dir) / "etcd", 1, port)
        for taken in (plans[0].client_port, plans[0].peer_port):
            require_free_port("etcd", taken, "--etcd-port")
        (member,) = start_members(find_etcd(), plans, ends_with_us=True)
    try:
        yield member
    finally:
        member.stop()


def serve_plan(plan: ClusterPlan, restart_after_s: float | None, etcd: EtcdMember | None = None) -> int:
    """Run the brokers of a plan until told to stop, by whoever holds the data directory; the exit code."""
    return asyncio.run(_serve(plan, restart_after_s, etcd))


async def _serve(plan: ClusterPlan, restart_after_s: float | None, etcd: EtcdMember | None) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    supervisor = Supervisor(plan, restart_after_s)
    watching = asyncio.create_task(_watch_etcd(etcd, restart_after_s)) if etcd is not None else None
    try:
        with told_status() as tell:
            tell(f"starting {len(plan.brokers)} brokers")
            starting = asyncio.create_task(_start(supervisor, tell))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return 0
            stopping.cancel()
            await starting
        print(_banner(plan, supervisor), flush=True)
        ends = {asyncio.create_task(stop.wait()), asyncio.create_task(supervisor.all_given_up.wait())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if supervisor.all_given_up.is_set():
            raise ClusterError(f"no broker is left: see the logs in {plan.data_dir}")
        print("stopping", file=sys.stderr, flush=True)
    finally:
        if watching is not None:
            watching.cancel()
        await supervisor.stop()
    return 0


async def _start(supervisor: Supervisor, tell: Callable[[str], object]) -> None:
    await supervisor.start()
    tell("waiting for them to find each other")
    await _gathered(supervisor.plan)


async def _watch_etcd(member: EtcdMember, restart_after_s: float | None) -> None:
    """Start our etcd again when it ends: brokers go on without it, but nothing else changes meanwhile."""
    while True:
        await asyncio.sleep(_LOOK_S)
        if not member.has_ended():
            continue
        if restart_after_s is None:
            log_event("etcd ended", level="error", log=str(member.log))
            return
        log_event("etcd ended: starting it again", level="warning", log=str(member.log))
        await asyncio.sleep(restart_after_s)
        member.stop()
        member.start()


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


def _detached(data_dir: str, words: Sequence[str]) -> int:
    """`cluster up` with these words, in the background; returns when it serves."""
    with held(data_dir):
        pass  # Nobody runs there, and no note of somebody who was killed is left.
    log = Path(data_dir) / "cluster.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app", "cluster", "up", *words],
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
            if read_note(data_dir) is not None:
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
    note = read_note(data_dir)
    if note is None:
        raise ClusterError(f"no cluster runs on {data_dir}: qanat cluster up starts one")

    async def work(cluster: Cluster) -> None:
        with told_status() as tell:
            for broker in note.brokers:
                await _whole(cluster, tell_waiting=tell)
                tell(f"restarting broker {broker.node_id}")
                before = _pid_of(data_dir, broker.node_id)
                # One that has just died comes back by itself, and as new.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(before, signal.SIGTERM)
                await _came_back(data_dir, broker.node_id, before)
                await _whole(cluster, tell_waiting=tell)
                print(f"broker {broker.node_id} was restarted")

    addresses = ",".join(broker.address for broker in note.brokers)
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
    note = read_note(data_dir)
    if note is None:
        raise ClusterError(f"no cluster runs on {data_dir}")
    try:
        os.kill(note.supervisor, signal.SIGTERM)
    except OSError as fault:
        raise ClusterError(f"process {note.supervisor} cannot be told to stop: {fault.strerror}") from None
    deadline = time.monotonic() + _DOWN_S
    with told_status() as tell:
        tell("stopping the brokers")
        while is_held(data_dir):
            if time.monotonic() > deadline:
                raise ClusterError(f"process {note.supervisor} has not stopped in {_DOWN_S:g} s")
            time.sleep(0.1)
    print("the cluster is stopped")
    return 0


def _pid_of(data_dir: str, node_id: int) -> int:
    note = read_note(data_dir)
    if note is None:
        raise ClusterError(f"the cluster on {data_dir} has stopped")
    pid = note.pid_of(node_id)
    if pid is None:
        raise ClusterError(f"broker {node_id} has ended for good: see {data_dir}/broker-{node_id}.log")
    return pid
