"""One broker with every mechanism, over TLS, with ACLs; and three identities for each mechanism.

`alice` may use the topics and groups of this test, `bob` is known and may do nothing, and what `alice` shows in
`wrong` is not hers: another password, a token of another key, a certificate of another authority.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from io import StringIO
from pathlib import Path
from typing import Any

from tests.clients.logins.login import MTLS, SASL, Login
from tests.security.identity_provider import AUDIENCE, ISSUER, JwksServer, KeyPair, jwks, provider
from tests.servers.client_modules import client_module
from tests.servers.tls.certificates import Authority, Shown

from qanat.app import main
from qanat.security.api_keys import ID_BYTES, SECRET_BYTES, compose
from qanat.testing import EmbeddedBroker

PREFIX = "logins-"
"""Of the topics and groups that alice may use."""
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
_FORGER = "forger"
_WAIT_S = 60


@dataclass(frozen=True)
class Secured:
    """The running broker, and the logins at it."""

    broker: EmbeddedBroker
    authority: Authority
    token_url: str
    tokens: Mapping[str, str]
    certificates: Mapping[str, Shown]
    api_keys: Mapping[str, str]

    def right(self, mechanism: str) -> Login:
        return self._login(mechanism, "alice", PASSWORDS["alice"])

    def without_rules(self, mechanism: str) -> Login:
        return self._login(mechanism, "bob", PASSWORDS["bob"])

    def wrong(self, mechanism: str) -> Login:
        """Alice's name with a secret that is not hers; at the token endpoint a client whose tokens are forged."""
        name = _FORGER if mechanism == "OAUTHBEARER" else "alice"
        return self._login(mechanism, name, "another-secret", shown=_FORGER)

    def _login(self, mechanism: str, name: str, password: str, shown: str | None = None) -> Login:
        listener = "CERTS" if mechanism == MTLS else "SASL_SSL"
        certificate = self.certificates[shown or name]
        return Login(
            mechanism=mechanism,
            address=f"127.0.0.1:{self.broker.node.listener.ports[listener]}",
            authority=str(self.authority.trusted),
            name=name,
            password=password,
            token=self.tokens[shown or name],
            api_key=self.api_keys[shown or name],
            token_url=self.token_url,
            chain=str(certificate.chain),
            key=str(certificate.key),
            both=str(certificate.both),
        )

    def refusals(self, mechanism: str) -> int:
        """How many logins of the mechanism's kind the broker has refused."""
        if mechanism != MTLS:
            return self.broker.node.listener.counters.not_authenticated
        (tls,) = [one for one in self.broker.node.listeners.certificates if one.name == "CERTS"]
        return tls.failed_handshakes


@contextmanager
def secured(folder: Path, *, http: str | None = None) -> Iterator[Secured]:
    """Run the broker, with HTTP of that protocol if any; its store, with users and rules, lies in the folder."""
    authority, other = Authority(folder), Authority(folder, "other")
    ours, forged = KeyPair("key", "ES256"), KeyPair("key", "ES256")
    tokens = {"alice": ours.token("alice"), "bob": ours.token("bob"), _FORGER: forged.token("alice")}
    certificates = {name: authority.client(name, f"CN={name},OU=people") for name in ("alice", "bob")}
    certificates[_FORGER] = other.client("alice", "CN=alice,OU=people")
    with provider(ours) as server:
        server.respond = lambda request: _answer(request, jwks(ours), tokens)
        data_dir = folder / "data"
        api_keys = {name: _add_user(folder, data_dir, name) for name in ("alice", "bob")}
        api_keys[_FORGER] = compose(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))
        settings = _settings(folder, authority, server) | ({} if http is None else _http_settings(http))
        with EmbeddedBroker(data_dir=data_dir, settings=settings) as broker:
            token_url = server.url.replace("/keys", "/token")
            running = Secured(broker, authority, token_url, tokens, certificates, api_keys)
            _add_rules(running)
            yield running


def _settings(folder: Path, authority: Authority, server: JwksServer) -> dict[str, object]:
    passwords = folder / "passwords"
    passwords.touch(0o600)
    passwords.write_text("".join(f"{name}:{password}\n" for name, password in PASSWORDS.items()))
    return {
        "listeners": "SASL_SSL://127.0.0.1:0,CERTS://127.0.0.1:0",
        "listener.security.protocol.map": "CERTS:SSL",
        "ssl.keystore.location": authority.server().both,
        "sasl.enabled.mechanisms": ",".join(SASL),
        "sasl.plain.credentials.file": passwords,
        "sasl.oauthbearer.jwks.endpoint.url": server.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.certs.ssl.client.auth": "required",
        "ssl.truststore.location": authority.trusted,
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=people$/$1/",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:admin",
        "auto.create.topics.enable": "false",
        # Clients with a wrong password try again and again; their back-off would hold up alice.
        "login.failures.per.user": 0,
        "login.failures.per.address": 0,
    }


def _http_settings(protocol: str) -> dict[str, object]:
    made: dict[str, object] = {"http.port": 0, "http.security.protocol": protocol}
    if protocol == "SSL":
        made["listener.name.http.ssl.client.auth"] = "required"
    return made


def _answer(request: BaseHTTPRequestHandler, keys: bytes, tokens: Mapping[str, str]) -> None:
    """The provider's keys, or a token for the client that asks for one (client credentials)."""
    if request.path == "/token":
        basic = request.headers["Authorization"].removeprefix("Basic ")
        name = base64.b64decode(basic).decode().partition(":")[0]
        body = json.dumps({"access_token": tokens[name], "token_type": "Bearer", "expires_in": 3600}).encode()
    else:
        body = keys
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _add_user(folder: Path, data_dir: Path, name: str) -> str:
    """A user for both mechanisms of SCRAM; returns an API key of the user."""
    password = folder / f"{name}.password"
    password.touch(0o600)
    password.write_text(PASSWORDS[name])
    store = ("--data-dir", str(data_dir))
    with redirect_stdout(StringIO()) as printed:
        assert main.run(["user", "add", name, "--password-file", str(password), *store]) == 0
        assert main.run(["api-key", "add", name, *store]) == 0
    return printed.getvalue().splitlines()[-1]


def _add_rules(running: Secured) -> None:
    """Alice may read and write the topics of the prefix, and use its groups."""
    admin = client_module("confluent_kafka.admin")
    login = running._login("PLAIN", "admin", PASSWORDS["admin"], shown="alice")
    client = admin.AdminClient(
        {
            "bootstrap.servers": login.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": login.authority,
            "sasl.mechanism": "PLAIN",
            "sasl.username": login.name,
            "sasl.password": login.password,
        }
    )
    topic, group = admin.ResourceType.TOPIC, admin.ResourceType.GROUP
    read, write = admin.AclOperation.READ, admin.AclOperation.WRITE

    def rule(kind: Any, operation: Any) -> Any:
        allow, prefixed = admin.AclPermissionType.ALLOW, admin.ResourcePatternType.PREFIXED
        return admin.AclBinding(kind, PREFIX, prefixed, "User:alice", "*", operation, allow)

    rules = [rule(topic, read), rule(topic, write), rule(group, read)]
    for future in client.create_acls(rules).values():
        future.result(_WAIT_S)
