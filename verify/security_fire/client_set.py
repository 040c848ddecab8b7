"""The clients of a rotation, and what they know: passwords, an API key, tokens, and whom they trust.

`app` writes and `audit` reads with passwords that change; `robot` writes with tokens; `legacy` writes on aiokafka;
`gateway` writes over HTTP with an API key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qanat.app.secure.secure_setup import ADMIN, admin_password
from verify.security_fire.administration import MECHANISM, scram
from verify.security_fire.brokers import FireCluster
from verify.security_fire.clients import AioWriter, Errors, FireClient, Ledger, Reader, Writer, wait_for_progress
from verify.security_fire.http_clients import HttpWriter
from verify.security_fire.identity_provider import IdentityProvider

APP, AUDIT, ROBOT, LEGACY, GATEWAY, GUEST = "app", "audit", "robot", "legacy", "gateway", "guest"
ORDERS, SIGNALS, POSTS = "orders", "signals", "posts"


class ClientSet:
    """All clients, started together and restarted where they trust another authority."""

    def __init__(self, folder: Path, cluster: FireCluster, provider: IdentityProvider) -> None:
        self._cluster, self._provider = cluster, provider
        self._folder, self._trusts = folder, 0
        self.errors = Errors()
        self.ledgers = {ORDERS: Ledger(), SIGNALS: Ledger(), POSTS: Ledger()}
        self.passwords: dict[str, str] = {}
        self.api_key = ""
        self.trust(cluster.files.authority.read_bytes())
        self._clients: list[FireClient] = []

    def trust(self, authorities: bytes) -> None:
        """What clients that start from now on trust; each keeps the file that it was started with."""
        self._trusts += 1
        self.trusted = self._folder / f"trusted-{self._trusts}.pem"
        self.trusted.write_bytes(authorities)

    # Settings

    @property
    def as_admin(self) -> dict[str, Any]:
        return self.with_password(ADMIN, admin_password(self._cluster.files))

    def with_password(self, user: str, password: str) -> dict[str, Any]:
        return scram(self._cluster.secure_bootstrap, str(self.trusted), user, password)

    def of_user(self, user: str) -> dict[str, Any]:
        return self.with_password(user, self.passwords[user])

    def with_token(self, token: str) -> dict[str, str]:
        """Settings of our own client."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token": token,
            "ssl.ca.location": str(self.trusted),
        }

    # Clients

    def start(self) -> None:
        """Start all, and return when each topic has new records."""
        cluster, errors, orders = self._cluster, self.errors, self.ledgers[ORDERS]
        self.app = Writer(APP, ORDERS, orders, errors, self.of_user(APP))
        self.audit = Reader(AUDIT, ORDERS, orders, errors, self.of_user(AUDIT))
        ports = [broker.http_port for broker in cluster.brokers]
        self.gateway = HttpWriter(GATEWAY, POSTS, self.ledgers[POSTS], errors, ports, str(self.trusted), self.api_key)
        self._clients = [self.app, self._robot(), self._legacy(), self.gateway, self.audit]
        for client in self._clients:
            client.start()
        wait_for_progress(self.ledgers.values())

    def _robot(self) -> Writer:
        tokens = {
            "bootstrap.servers": self._cluster.secure_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": str(self.trusted),
            "oauth_cb": lambda _: self._provider.token(ROBOT),
        }
        return Writer(ROBOT, SIGNALS, self.ledgers[SIGNALS], self.errors, tokens)

    def _legacy(self) -> AioWriter:
        options = {
            "bootstrap_servers": self._cluster.secure_bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": LEGACY,
            "sasl_plain_password": self.passwords[LEGACY],
            "authority": str(self.trusted),
        }
        return AioWriter(LEGACY, ORDERS, self.ledgers[ORDERS], self.errors, options)

    def finish(self) -> None:
        for client in self._clients:
            client.finish()
        self._clients = []

    def restart(self) -> None:
        self.finish()
        self.start()
