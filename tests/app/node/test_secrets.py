"""No secret of a broker appears in its log, its metrics, its settings as clients see them, or any `repr`.

Tokens, API keys and the output of a whole process are in `tests/app/secure/test_no_secret_is_shown.py`.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers.kafka.raw import RawClient
from tests.servers.tls.certificates import Authority

from qanat.app.settings.source_value import SourceValue
from qanat.broker.security.user_credentials import credential_of
from qanat.cluster import values
from qanat.connection.cluster import Cluster
from qanat.connection.sasl import NotAuthenticatedError
from qanat.connection.security import Security, security_of
from qanat.security.scram import ScramVerifier
from qanat.security.tls_settings import TlsSettings
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.registry import ApiKey

BROKER = 4


async def reach(address: tuple[str, int], security: Security) -> None:
    async with Cluster([address], security=security) as cluster:
        await cluster.metadata([], cluster.deadline())


def test_no_secret_is_shown_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    shown, secrets = authority.server(), ["alice-password", "between-brokers", "wrong-password"]
    for name, content in (("users", f"alice:{secrets[0]}"), ("brokers", f"broker:{secrets[1]}")):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(content)
    key = shown.key.read_text()
    secrets.append(key.splitlines()[1])
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "inter.broker.port": 0,
        "sasl.plain.credentials.file": tmp_path / "users",
        "inter.broker.credentials.file": tmp_path / "brokers",
        "ssl.keystore.certificate.chain": shown.chain.read_text(),
        "ssl.keystore.key": key,
        "ssl.truststore.location": authority.trusted,
        "listener.name.sasl_ssl.ssl.key.password": secrets[0],
        "metrics.port": 0,
    }
    caplog.set_level("DEBUG")
    with EmbeddedBroker(settings=settings) as broker:
        node = broker.node
        client = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.trusted), "sasl.mechanism": "PLAIN"}
        address = ("127.0.0.1", node.listener.ports["SASL_SSL"])
        right, wrong = (
            security_of({**client, "sasl.username": "alice", "sasl.password": password})
            for password in (secrets[0], secrets[2])
        )
        asyncio.run(reach(address, right))
        with pytest.raises(NotAuthenticatedError) as refused:
            asyncio.run(reach(address, wrong))
        with RawClient(f"127.0.0.1:{node.listener.ports['PLAINTEXT']}") as raw:
            asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "0", None)], True, True)
            configs = repr(raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked))
        assert node.metrics is not None
        with urllib.request.urlopen(node.metrics.address, timeout=60) as answer:
            metrics = answer.read().decode()
        parts = (node.settings, node.listeners.plan, node.listeners.identity, vars(node.listeners), vars(node))
        said = {
            "configs": configs,
            "metrics": metrics,
            "repr": repr(parts),
            "log": caplog.text,
            "error": str(refused.value),
        }

    assert "authentication failed" in said["log"]
    assert "num.partitions" in configs
    for where, text in said.items():
        for secret in secrets:
            assert secret not in text, where


SECRET = "hunter2-hunter2"
CLIENT = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
OBJECTS: dict[str, Callable[[], object]] = {
    "TLS of a broker": lambda: TlsSettings(
        ssl_keystore_key=SECRET, ssl_keystore_certificate_chain="x", ssl_key_password=SECRET
    ),
    "value of a setting": lambda: SourceValue("listener.name.http.ssl.key.password", SECRET, "x"),
    "client with a password": lambda: security_of(
        {**CLIENT, "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET}
    ),
    "client with a key": lambda: security_of(
        {"security.protocol": "SSL", "ssl.key.pem": SECRET, "ssl.key.password": SECRET, "ssl.certificate.pem": "x"}
    ),
    "client with a token": lambda: security_of({**CLIENT, "sasl.oauthbearer.token": SECRET}),
    "client of a token endpoint": lambda: security_of(
        {
            **CLIENT,
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "sasl.oauthbearer.client.id": "build",
            "sasl.oauthbearer.client.secret": SECRET,
        }
    ),
    "verifier": lambda: ScramVerifier(SECRET.encode(), SECRET.encode(), SECRET.encode(), 4096),
    "stored verifier": lambda: credential_of(ScramVerifier(SECRET.encode(), SECRET.encode(), SECRET.encode(), 4096)),
    "stored API key": lambda: values.ApiKey(user="u", hash=SECRET.encode(), created_ms=1, expires_ms=2),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_no_repr_of_an_object_that_has_a_secret_shows_it(name: str) -> None:
    made = OBJECTS[name]()

    for text in (repr(made), str(made), f"{[made]}"):
        assert SECRET not in text
