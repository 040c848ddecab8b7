"""Rotation under load: certificates, passwords, keys of tokens and ACLs change, and brokers are killed in between.

Four clients: `app` writes and `audit` reads with passwords that change; `robot` writes with tokens; `legacy` writes on
aiokafka. `guest` is given a right and loses it again: every broker obeys within a second.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from qanat.app.secure.secure_setup import ADMIN, admin_password
from verify.security_fire.administration import MECHANISM, Administration, may_read, read, read_group, scram, write
from verify.security_fire.brokers import FireCluster
from verify.security_fire.clients import AioWriter, Errors, FireClient, Ledger, Reader, Writer, wait_for_progress
from verify.security_fire.identity_provider import REFRESH_MS, IdentityProvider
from verify.security_fire.judgement import lost_records
from verify.security_fire.outcome import Outcome

APP, AUDIT, ROBOT, LEGACY, GUEST = "app", "audit", "robot", "legacy", "guest"
ORDERS, SIGNALS = "orders", "signals"
_IN_FORCE_S = 1.0
_SESSION_MS = 15_000
"""Sessions end, so that open connections log in again during a run."""


class Rotation:
    """One run."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._cluster = FireCluster(folder / "rotation")
        self._provider = IdentityProvider()
        self._errors, self._done = Errors(), Counter[str]()
        self._ledgers = {ORDERS: Ledger(), SIGNALS: Ledger()}
        self._problems: list[str] = []
        self._is_by_prefix = False
        """How the rules of `app` name its topic; it changes."""

    def run(self, seconds: float) -> Outcome:
        began = time.monotonic()
        cluster = self._cluster
        try:
            with self._provider:
                self._start()
                clients = self._clients()
                self._turn(time.monotonic() + seconds)
                for client in clients:
                    client.finish()
                for topic, ledger in self._ledgers.items():
                    self._problems += lost_records(topic, ledger, self._as_admin)
        finally:
            cluster.kill()
        self._problems += [*self._errors.faults, *cluster.problems()]
        records = sum(map(len, self._ledgers.values()))
        return Outcome("rotation", records, self._done, self._errors, self._problems, time.monotonic() - began)

    def _turn(self, end_s: float) -> None:
        """Rotate everything in turn, and kill a broker before or after each; whole rounds, until the time is up."""
        rotations = [self._certificate, self._password_of_app, self._password_of_audit, self._keys, self._rules]
        rotations.append(self._guest)
        while time.monotonic() < end_s:
            self._random.shuffle(rotations)
            for rotate in rotations:
                broker = self._random.choice(self._cluster.brokers)
                is_killed_before = self._random.random() < 0.5 and rotate != self._guest
                if is_killed_before:
                    broker.kill()
                rotate()
                self._done[rotate.__name__.strip("_").replace("_", " ")] += 1
                if not is_killed_before:
                    broker.kill()
                self._done["kill -9"] += 1
                broker.start()
                wait_for_progress(self._ledgers.values())

    # The cluster and its clients

    @property
    def _as_admin(self) -> dict[str, Any]:
        return self._as(ADMIN, admin_password(self._cluster.files))

    def _as(self, user: str, password: str) -> dict[str, Any]:
        cluster = self._cluster
        return scram(cluster.secure_bootstrap, str(cluster.files.authority), user, password)

    def _start(self) -> None:
        cluster = self._cluster
        settings = cluster.secure_settings()
        settings["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
        settings["connections.max.reauth.ms"] = str(_SESSION_MS)
        cluster.set_all({**settings, **self._provider.settings}, is_open=False, is_secure=True)
        cluster.start()
        self._admin = Administration(self._as_admin)
        self._admin.create_topics(self._ledgers)
        self._passwords = {user: self._admin.set_password(user) for user in (APP, AUDIT, LEGACY, GUEST)}
        self._admin.allow(
            *(write(APP, ORDERS), write(LEGACY, ORDERS), write(ROBOT, SIGNALS)),
            *(read(AUDIT, ORDERS), read_group(AUDIT, "fire")),
        )
        time.sleep(_IN_FORCE_S)

    def _clients(self) -> list[FireClient]:
        cluster, errors, orders = self._cluster, self._errors, self._ledgers[ORDERS]
        self._app = Writer(APP, ORDERS, orders, errors, self._as(APP, self._passwords[APP]))
        self._audit = Reader(AUDIT, ORDERS, orders, errors, self._as(AUDIT, self._passwords[AUDIT]))
        tokens = {
            "bootstrap.servers": cluster.secure_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": str(cluster.files.authority),
            "oauth_cb": lambda _: self._provider.token(ROBOT),
        }
        robot = Writer(ROBOT, SIGNALS, self._ledgers[SIGNALS], errors, tokens)
        legacy_options = {
            "bootstrap_servers": cluster.secure_bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": LEGACY,
            "sasl_plain_password": self._passwords[LEGACY],
            "authority": str(cluster.files.authority),
        }
        legacy = AioWriter(LEGACY, ORDERS, orders, errors, legacy_options)
        clients: list[FireClient] = [self._app, robot, legacy, self._audit]
        for client in clients:
            client.start()
        wait_for_progress(self._ledgers.values())
        return clients

    # Rotations

    def _certificate(self) -> None:
        self._cluster.renew_certificate()
        time.sleep(2.0)  # Brokers look at their files once a second.

    def _password_of_app(self) -> None:
        self._change_password(APP, self._app)

    def _password_of_audit(self) -> None:
        self._change_password(AUDIT, self._audit)

    def _change_password(self, user: str, client: Writer | Reader) -> None:
        self._errors.password_changes(user)
        self._passwords[user] = self._admin.set_password(user)
        client.use_password(self._passwords[user])
        self._errors.password_changes(user)
        time.sleep(_IN_FORCE_S)

    def _keys(self) -> None:
        """Publish, then sign, and forget when no token of the key before is left: as providers do."""
        self._provider.forget_unused()
        self._provider.publish_another()
        time.sleep(2 * REFRESH_MS / 1000)
        self._provider.sign_with_the_last()

    def _rules(self) -> None:
        """The right of `app` rests on another rule; there is no moment without one."""
        before, self._is_by_prefix = self._is_by_prefix, not self._is_by_prefix
        self._admin.allow(self._rule_of_app(is_prefix=self._is_by_prefix))
        time.sleep(_IN_FORCE_S)
        self._admin.revoke(self._rule_of_app(is_prefix=before))

    @staticmethod
    def _rule_of_app(*, is_prefix: bool) -> Any:
        return write(APP, ORDERS[:3] if is_prefix else ORDERS, is_prefix=is_prefix)

    def _guest(self) -> None:
        """Grant and revoke; all brokers run."""
        settings = self._as(GUEST, self._passwords[GUEST])
        ports = [broker.secure_port for broker in self._cluster.brokers]
        for is_allowed in (True, False):
            (self._admin.allow if is_allowed else self._admin.revoke)(read(GUEST, ORDERS))
            time.sleep(_IN_FORCE_S)
            found = may_read(settings, ORDERS, ports)
            if found != [is_allowed] * len(ports):
                self._problems.append(f"not in force after {_IN_FORCE_S} s: {GUEST} may read {found}, not {is_allowed}")
