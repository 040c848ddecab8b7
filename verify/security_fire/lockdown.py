"""An open cluster is locked down while it runs: each broker is restarted once per step, cleanly or by kill -9.

1. A protected listener beside the open one, certificates and credentials.
2. Protection between brokers, and the authorizer in a dry run.
3. Rules are made, and clients move to the protected listener.
4. No open listener, no dry run.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from qanat.app.secure.secure_setup import ADMIN, admin_password
from verify.security_fire.administration import Administration, may_read, read, read_group, scram, write
from verify.security_fire.brokers import FireCluster
from verify.security_fire.clients import Errors, FireClient, Ledger, Reader, Writer, wait_for_progress
from verify.security_fire.http_clients import request
from verify.security_fire.judgement import lost_records
from verify.security_fire.outcome import Outcome

APP, AUDIT, NEWCOMER = "app", "audit", "newcomer"
ORDERS = "orders"
_IN_FORCE_S = 1.0
_AUTHORIZER = ("authorizer.class.name", "super.users")


class Lockdown:
    """One run."""

    def __init__(self, folder: Path, seed: int, store: str) -> None:
        self._random = Random(seed)
        self._cluster = FireCluster(folder / "lockdown", store)
        self._errors, self._done = Errors(), Counter[str]()
        self._ledger = Ledger()

    def run(self) -> Outcome:
        began, cluster = time.monotonic(), self._cluster
        is_open: dict[str, Any] = {"bootstrap.servers": cluster.open_bootstrap}
        secure = cluster.secure_settings()
        unruled = {name: value for name, value in secure.items() if name not in _AUTHORIZER}
        problems: list[str] = []
        try:
            cluster.set_all({}, is_open=True, is_secure=False)
            cluster.start()
            Administration(is_open).create_topics([ORDERS])
            clients = self._clients(is_open, is_open)
            self._roll({**unruled, "security.inter.broker.protocol": "PLAINTEXT"}, is_open=True)
            self._roll({**secure, "authorizer.dry.run": "true"}, is_open=True)
            clients = self._move(clients)
            self._roll(secure, is_open=False)
            for client in clients:
                client.finish()
            problems += lost_records(ORDERS, self._ledger, self._as(ADMIN, admin_password(cluster.files)))
            problems += self._open_doors()
        finally:
            cluster.kill()
        problems += [*self._errors.faults, *cluster.problems()]
        return Outcome("lockdown", len(self._ledger), self._done, self._errors, problems, time.monotonic() - began)

    def _as(self, user: str, password: str) -> dict[str, Any]:
        return scram(self._cluster.secure_bootstrap, str(self._cluster.files.authority), user, password)

    def _clients(self, writes: Mapping[str, Any], reads: Mapping[str, Any]) -> list[FireClient]:
        clients: list[FireClient] = [
            Writer(APP, ORDERS, self._ledger, self._errors, writes),
            Reader(AUDIT, ORDERS, self._ledger, self._errors, reads),
        ]
        for client in clients:
            client.start()
        wait_for_progress([self._ledger])
        return clients

    def _roll(self, settings: Mapping[str, str], *, is_open: bool) -> None:
        """Restart broker by broker with these settings."""
        cluster = self._cluster
        cluster.set_all(settings, is_open=is_open, is_secure=True)
        for broker in self._random.sample(cluster.brokers, len(cluster.brokers)):
            is_killed = self._random.random() < 0.5
            (broker.kill if is_killed else broker.stop)()
            self._done["kill -9" if is_killed else "clean stop"] += 1
            broker.start()
            wait_for_progress([self._ledger])
        self._done["rolling restart"] += 1

    def _move(self, clients: list[FireClient]) -> list[FireClient]:
        """Add users and rules, start clients with them, and let the open ones finish."""
        admin = Administration(self._as(ADMIN, admin_password(self._cluster.files)))
        passwords = {user: admin.set_password(user) for user in (APP, AUDIT)}
        admin.allow(write(APP, ORDERS), read(AUDIT, ORDERS), read_group(AUDIT, "fire"))
        time.sleep(_IN_FORCE_S)
        moved = self._clients(self._as(APP, passwords[APP]), self._as(AUDIT, passwords[AUDIT]))
        for client in clients:
            client.finish()
        self._done["clients moved"] += len(moved)
        return moved

    def _open_doors(self) -> list[str]:
        """Brokers that still serve every client, or every user."""
        cluster = self._cluster
        ports = [broker.secure_port for broker in cluster.brokers]
        password = Administration(self._as(ADMIN, admin_password(cluster.files))).set_password(NEWCOMER)
        time.sleep(_IN_FORCE_S)
        let_in = may_read(self._as(NEWCOMER, password), ORDERS, ports)
        problems = [f"a user without a rule may read: {let_in}"] if any(let_in) else []
        tls = ssl.create_default_context(cafile=str(cluster.files.authority))
        statuses = [request(one.http_port, tls, "GET", "/api/v1/topics", {})[0] for one in cluster.brokers]
        if statuses != [401] * len(statuses):
            problems.append(f"HTTP answers a client without credentials: {statuses}")
        open_brokers = [broker.node_id for broker in cluster.brokers if broker.accepts_open_clients]
        return problems + [f"broker {node_id} still has an open listener" for node_id in open_brokers]
