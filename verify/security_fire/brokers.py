"""Three brokers on this machine: processes that share a metadata store, killed and started with changing settings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tools.build_etcd import FOLDER

from qanat.app.node.etcd_server import EtcdMember, MemberPlan, find_etcd
from qanat.app.secure.private_files import write_private
from qanat.app.secure.secure_setup import SecureFiles, add_administrator, broker_settings, write_files

BROKERS = 3
_TIMEOUT_S = 90.0
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
}


class FireBroker:
    """`qanat start`, with ports that stay the same."""

    def __init__(self, node_id: int, folder: Path) -> None:
        self.node_id = node_id
        self._folder = folder
        self.log = folder / f"broker-{node_id}.log"
        self.open_port, self.secure_port, self.http_port, self._inter_broker_port = _free_ports(4)
        self.settings: dict[str, str] = {}
        """Settings of its next start, besides those of every broker."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and return once its listeners accept connections."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QANAT_")}
        ports = {"inter.broker.port": str(self._inter_broker_port), "http.port": str(self.http_port)}
        settings = {**_SETTINGS, **ports, **self.settings}
        line = [sys.executable, "-m", "qanat.app", "start", "--node-id", str(self.node_id)]
        line += ["--data-dir", str(self._folder / "data")]
        line += [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(line, stdout=log, stderr=log, env=environment)
        kafka_ports = [int(one.rsplit(":", 1)[1]) for one in settings["listeners"].split(",")]
        deadline = time.monotonic() + _TIMEOUT_S
        while not all(map(_accepts, [*kafka_ports, self.http_port])):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"broker {self.node_id} does not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Shut it down cleanly."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_TIMEOUT_S)
        self._process = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def accepts_open_clients(self) -> bool:
        return _accepts(self.open_port)

    def tracebacks(self) -> int:
        return self.log.read_text(errors="replace").count("Traceback ") if self.log.exists() else 0


class FireCluster:
    """All three, with the files of a protected cluster, and their metadata store: a file, or an etcd of its own."""

    def __init__(self, folder: Path, store: str) -> None:
        folder.mkdir()
        self.brokers = [FireBroker(node_id, folder) for node_id in range(BROKERS)]
        self._data_dir = str(folder / "data")
        self._etcd = _etcd_member(folder) if store == "etcd" else None
        self._store_settings = {} if self._etcd is None else _settings_of(self._etcd)
        self.files = SecureFiles.of(self._data_dir)
        self._authorities = 1
        write_files(self.files, (), self.secure_bootstrap)
        self.store_file = folder / "store.yaml"
        """Settings of the store, for commands that need it."""
        kept = {"data.dir": self._data_dir, **self._store_settings}
        self.store_file.write_text("".join(f"{name}: {value}\n" for name, value in kept.items()))
        if self._etcd is not None:
            self._etcd.start()
            self._etcd.wait()
        add_administrator(self.files, kept)

    @property
    def open_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{one.open_port}" for one in self.brokers)

    @property
    def secure_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{one.secure_port}" for one in self.brokers)

    @property
    def running(self) -> list[FireBroker]:
        return [broker for broker in self.brokers if broker.is_running]

    def renew_certificate(self) -> None:
        """Another key and certificate of the brokers, from the authority of now."""
        write_files(self.files, (), self.secure_bootstrap, renews=True)

    def add_authority(self) -> tuple[bytes, bytes]:
        """Another authority, which signs from now on; the one before is still trusted. Returns the old and the new."""
        from qanat.app.secure.authority import Authority

        self._authorities += 1
        old, new = self.files.authority.read_bytes(), Authority.create(f"authority {self._authorities}")
        write_private(self.files.authority, new.certificate_pem + old)
        write_private(self.files.authority_key, new.key_pem)
        return old, new.certificate_pem

    def trust_only(self, authority: bytes) -> None:
        write_private(self.files.authority, authority)

    def secure_settings(self) -> dict[str, str]:
        """What `qanat secure init` sets, without the listener."""
        settings = broker_settings(self.files)
        del settings["listener.security.protocol"]
        return settings

    def set_all(self, settings: Mapping[str, str], *, is_open: bool, is_secure: bool) -> None:
        """Settings for the next start of every broker, and the listeners that it has then."""
        for broker in self.brokers:
            listeners = [f"PLAINTEXT://127.0.0.1:{broker.open_port}"] * is_open
            listeners += [f"SASL_SSL://127.0.0.1:{broker.secure_port}"] * is_secure
            broker.settings = {**self._store_settings, **settings, "listeners": ",".join(listeners)}

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()
        if self._etcd is not None:
            self._etcd.kill()

    def problems(self) -> list[str]:
        """Bugs that brokers have logged."""
        found = [(broker, broker.tracebacks()) for broker in self.brokers]
        return [f"broker {broker.node_id} logged {count} tracebacks: {broker.log}" for broker, count in found if count]


def _etcd_member(folder: Path) -> EtcdMember:
    client_port, peer_port = _free_ports(2)
    plan = MemberPlan("fire", folder / "etcd", client_port, peer_port)
    return EtcdMember(find_etcd([FOLDER]), plan, [plan])


def _settings_of(etcd: EtcdMember) -> dict[str, str]:
    return {"metadata.store": "etcd", "metadata.etcd.endpoints": etcd.plan.client_url}


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports outside the range of outgoing connections, so that they stay free while a broker is down."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() % 5000, 32_000):
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            continue
        if port not in _given:
            _given.add(port)
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("there are no free ports")


_given: set[int] = set()
