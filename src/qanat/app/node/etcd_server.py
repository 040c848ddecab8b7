"""etcd on this machine: find the program, and run members for local clusters and tests.

Qanat talks to any etcd (`metadata.etcd.endpoints`). Users without one run `qanat cluster up --store etcd`, which starts
one member beside its brokers. Members listen on loopback by default.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qanat.app.child_processes import end_with_parent
from qanat.app.settings.environment import ETCD
from qanat.model.errors import StoreUnavailableError

KEPT_REVISIONS = 10_000
"""How many revisions watchers may fall behind before they have to list again, as in the other stores."""
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0


def find_etcd(folders: Sequence[Path] = ()) -> str:
    """The program: the one in `QANAT_ETCD`, on the path, or in `folders`; raises with how to install it."""
    named = os.environ.get(ETCD)
    if named:
        if shutil.which(named) is None:
            raise StoreUnavailableError(f"{ETCD}={named} is not an executable program")
        return named
    kept = (str(folder / "etcd") for folder in folders)
    found = shutil.which("etcd") or next((path for path in kept if shutil.which(path)), None)
    if found is None:
        raise StoreUnavailableError(
            "there is no etcd on this machine: install it (Debian: apt install etcd-server), build it with Go (in "
            f"Qanat's sources: python -m tools.build_etcd), or name the program in {ETCD}"
        )
    return found


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member: its name, its data folder, its ports."""

    name: str
    folder: Path
    client_port: int
    peer_port: int
    host: str = "127.0.0.1"

    @property
    def client_url(self) -> str:
        return f"http://{self.host}:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://{self.host}:{self.peer_port}"


def plan_members(folder: Path, count: int, first_port: int | None = None) -> list[MemberPlan]:
    """Members below `folder`; on ports from `first_port` on, or on free ones."""
    ports = list(range(first_port, first_port + 2 * count)) if first_port is not None else _free_ports(2 * count)
    return [
        MemberPlan(f"member-{number}", folder / f"member-{number}", ports[2 * number], ports[2 * number + 1])
        for number in range(count)
    ]


class EtcdMember:
    """An etcd process, running, or stopped and ready to start again on its data."""

    def __init__(
        self,
        program: str,
        plan: MemberPlan,
        cluster: Sequence[MemberPlan],
        options: Sequence[str] = (),
        before: Sequence[str] = (),
        *,
        ends_with_parent: bool = False,
    ) -> None:
        """`before` is a command prefix that executes the program; `ends_with_parent` ends the process with the thread
        that starts it, even if that is killed."""
        self.plan = plan
        self._ends_with_parent = ends_with_parent
        self._program = program
        self._command = [
            *before,
            program,
            *("--name", plan.name),
            *("--data-dir", str(plan.folder)),
            *("--listen-client-urls", plan.client_url),
            *("--advertise-client-urls", plan.client_url),
            *("--listen-peer-urls", plan.peer_url),
            *("--initial-advertise-peer-urls", plan.peer_url),
            *("--initial-cluster", ",".join(f"{member.name}={member.peer_url}" for member in cluster)),
            *("--auto-compaction-mode", "revision"),
            *("--auto-compaction-retention", str(KEPT_REVISIONS)),
            *("--logger", "zap"),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.plan.folder.with_suffix(".log")

    def start(self) -> None:
        """Start it; `wait` for it afterwards. Members of a cluster start together."""
        assert self._process is None, "it runs already"
        self.plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # A session of its own: an interrupt at the terminal reaches this process, which then stops etcd cleanly.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent() if self._ends_with_parent else None,
            )

    def wait(self) -> None:
        """Return once it accepts connections."""
        assert self._process is not None, "it was not started"
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection((self.plan.host, self.plan.client_port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise StoreUnavailableError(f"etcd ({self._program}) did not start: {_last_log_line(self.log)}; see {self.log}")

    def has_ended(self) -> bool:
        """Whether it ended although it was not stopped."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """Shut it down cleanly, or kill it after a timeout."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_members(
    program: str, plans: Sequence[MemberPlan], options: Sequence[str] = (), *, ends_with_parent: bool = False
) -> list[EtcdMember]:
    """The members of a new cluster, started and accepting connections."""
    members = [EtcdMember(program, plan, plans, options, ends_with_parent=ends_with_parent) for plan in plans]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait()
    except BaseException:
        for member in members:
            member.kill()
        raise
    return members


def _free_ports(count: int) -> list[int]:
    """Free ports, all different because all stay bound until the last is found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _last_log_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "its log is empty"
