"""`qanat cluster up`: several brokers on this machine, as one real cluster."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.cluster.cluster_plan import plan_cluster
from qanat.app.cluster.local_cluster import BROKERS_MAX, WHOLE_S, serve_plan
from qanat.app.cluster.pid_file import ClusterError, locked, read_pid_file
from qanat.app.cluster.supervisor import require_free_port
from qanat.app.node.event_log import configure
from qanat.app.terminal.progress import status_line
from qanat.telemetry.events import LogLevel

if TYPE_CHECKING:
    from qanat.app.node.etcd_server import EtcdMember


def up(
    *,
    brokers: Annotated[int, Parameter(name=["--brokers", "-n"])] = 3,
    store: Literal["sqlite", "etcd"] = "sqlite",
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    port: int = 9092,
    http_port: Annotated[int, Parameter(help="Port of the first broker's HTTP server; -1 for none.")] = 8080,
    etcd_port: Annotated[
        int, Parameter(help="Port of the etcd that is started; it takes the next one as well.")
    ] = 2379,
    secure: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    restart_after: float = 5.0,
    restart: bool = True,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative="")] = False,
    log_level: LogLevel = "info",
) -> int:
    """Run a cluster on this machine until Ctrl-C or SIGTERM stops it.

    Broker i (from 0) serves Kafka clients on 9092 + i, HTTP on 8080 + i and other brokers on 19092 + i. With three
    brokers, topics have three replicas, and a write is acknowledged when two of them have it on disk. The brokers' logs
    are broker-0.log and so on in the data directory.

        qanat cluster up
        qanat cluster up --brokers 5 --data-dir /var/lib/qanat -X num.partitions=6
        qanat cluster up --store etcd --detach
        qanat cluster up --secure

    With -X listener.security.protocol=SASL_PLAINTEXT clients need a password; without sasl.plain.credentials.file, one
    for the user admin is drawn into the file credentials of the data directory.

    Try it: kill -9 one of the pids that `qanat cluster status` shows, and watch the others take over.

    Parameters
    ----------
    brokers:
        How many.
    store:
        The metadata store: a file that the brokers share, or an etcd that is started beside them.
    data_dir:
        Directory of all data.
    port:
        Port of the first broker.
    secure:
        With TLS, SCRAM and ACLs: makes an authority, certificates and an administrator in the data directory.
    settings:
        Any setting, for every broker, as often as needed: -X name=value.
    restart_after:
        Seconds until a broker that was killed is restarted.
    restart:
        Whether a broker that was killed is restarted.
    detach:
        Return when the cluster serves; `qanat cluster down` stops it.
    log_level:
        The least important events of the supervisor to log.
    """
    if not 1 <= brokers <= BROKERS_MAX:
        raise WrongArgumentError(f"--brokers {brokers}: write a number from 1 to {BROKERS_MAX}")
    broker_settings = [f"{name}={value}" for name, value in assignments(settings or []).items()]
    if not secure and not broker_settings and (Path(data_dir) / "security").exists():
        raise WrongArgumentError(
            f"{data_dir} is the data of a secure cluster, and without --secure every client would be let in: "
            f"add --secure, or remove {data_dir}/security"
        )
    if detach:
        flags: dict[str, object] = {"brokers": brokers, "store": store, "data-dir": data_dir, "port": port}
        flags |= {"http-port": http_port, "etcd-port": etcd_port}
        flags |= {"restart-after": restart_after, "log-level": log_level}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        words += [
            "--restart" if restart else "--no-restart",
            *(["--secure"] if secure else []),
            *(word for one in broker_settings for word in ("-X", one)),
        ]
        return _detached(data_dir, words)
    configure("text", log_level)
    restart_after_s = restart_after if restart else None
    shown_http_port = None if http_port < 0 else http_port
    with locked(data_dir):
        if store == "sqlite":
            if secure:
                broker_settings = _secured(data_dir, brokers, port, broker_settings)
            return serve_plan(plan_cluster(data_dir, brokers, port, shown_http_port, broker_settings), restart_after_s)
        with _own_etcd(data_dir, etcd_port) as member:
            broker_settings = [
                "metadata.store=etcd",
                f"metadata.etcd.endpoints={member.plan.client_url}",
                *broker_settings,
            ]
            if secure:
                broker_settings = _secured(data_dir, brokers, port, broker_settings)
            plan = plan_cluster(data_dir, brokers, port, shown_http_port, broker_settings)
            return serve_plan(plan, restart_after_s, member)


def _secured(data_dir: str, brokers: int, port: int, settings: Sequence[str]) -> list[str]:
    """The settings with those of a protected cluster below them; its files and its administrator are made."""
    from qanat.app.secure import secure_setup
    from qanat.app.secure.init import next_steps

    files = secure_setup.SecureFiles.of(data_dir)
    bootstrap = ",".join(f"127.0.0.1:{port + number}" for number in range(brokers))
    secure_setup.write_files(files, (), bootstrap)
    given = dict(one.split("=", 1) for one in settings)
    stored = {name: value for name, value in given.items() if name.startswith("metadata.")}
    secure_setup.add_administrator(files, {"data.dir": data_dir, **stored})
    print(next_steps(files), end="\n\n", flush=True)
    return [f"{name}={value}" for name, value in {**secure_setup.broker_settings(files), **given}.items()]


@contextlib.contextmanager
def _own_etcd(data_dir: str, port: int) -> Iterator[EtcdMember]:
    from qanat.app.node.etcd_server import find_etcd, plan_members, start_members

    with status_line() as report_progress:
        report_progress("starting etcd")
        plans = plan_members(Path(data_dir) / "etcd", 1, port)
        for taken in (plans[0].client_port, plans[0].peer_port):
            require_free_port("etcd", taken, "--etcd-port")
        (member,) = start_members(find_etcd(), plans, ends_with_parent=True)
    try:
        yield member
    finally:
        member.stop()


def _detached(data_dir: str, words: Sequence[str]) -> int:
    """`cluster up` with these arguments, in the background; returns when it serves."""
    with locked(data_dir):
        pass  # No cluster runs there, and the pid file of a killed one is removed.
    log = Path(data_dir) / "cluster.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app", "cluster", "up", *words],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    deadline = time.monotonic() + WHOLE_S
    with status_line() as report_progress:
        report_progress("starting the cluster")
        while time.monotonic() < deadline:
            if process.poll() is not None:
                lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
                raise ClusterError(f"the cluster did not start: {lines[-1][:300] if lines else 'no reason was logged'}")
            if read_pid_file(data_dir) is not None:
                print(f"the cluster serves; qanat cluster down --data-dir {data_dir} stops it")
                return 0
            time.sleep(0.1)
    raise ClusterError(f"the cluster did not start in {WHOLE_S:g} s: see {log}")
