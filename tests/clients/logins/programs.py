"""Clients that are not Python: programs in Java, JavaScript and Go, one process each for all logins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.clients.go_clients import built
from tests.clients.java_client import java_command
from tests.clients.kafkajs import installed
from tests.clients.logins.login import MTLS, OAUTHBEARER, Login
from tests.clients.remote import RemoteClient
from tools.toolchains.node import have_node

_JAAS = "org.apache.kafka.common.security"
_JS = Path(__file__).parents[1] / "js" / "logins.js"


def java_settings(login: Login) -> dict[str, str]:
    """Properties of Kafka's Java client; Spark's connector takes them with `kafka.` before each name."""
    made = {
        "bootstrap.servers": login.address,
        "security.protocol": login.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": login.authority,
    }
    if login.mechanism == MTLS:
        return {**made, "ssl.keystore.type": "PEM", "ssl.keystore.location": login.both}
    made["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        module, user, secret = f"{_JAAS}.oauthbearer.OAuthBearerLoginModule", "clientId", "clientSecret"
        made["sasl.login.callback.handler.class"] = f"{_JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler"
        made["sasl.oauthbearer.token.endpoint.url"] = login.token_url
    else:
        kind = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
        module, user, secret = f"{_JAAS}.{kind}LoginModule", "username", "password"
    made["sasl.jaas.config"] = f'{module} required {user}="{login.name}" {secret}="{login.password}";'
    return made


def allowed_urls(token_url: str) -> str:
    """The property of the Java process without which its client asks no token endpoint."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token_url}"


class ProgramLogins:
    """Two commands, asked of another process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._remote = RemoteClient(command, "")

    def _settings(self, login: Login) -> Mapping[str, Any]:
        return {"login": asdict(login)}

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        self._remote.ask("login_write", topic=topic, values=list(values), **self._settings(login))

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        found: list[str] = self._remote.ask("login_read", topic=topic, count=count, **self._settings(login))
        return found

    def close(self) -> None:
        self._remote.close()


class JavaLogins(ProgramLogins):
    def __init__(self, token_url: str) -> None:
        super().__init__(java_command("Logins", allowed_urls(token_url)))

    def _settings(self, login: Login) -> Mapping[str, Any]:
        return {"settings": java_settings(login)}


class KafkaJsLogins(ProgramLogins):
    def __init__(self) -> None:
        folder = installed()
        super().__init__([have_node().program, str(_JS), str(folder)])


class SaramaLogins(ProgramLogins):
    def __init__(self) -> None:
        super().__init__([str(built("sarama")), "none"])


class FranzGoLogins(ProgramLogins):
    def __init__(self) -> None:
        super().__init__([str(built("franz")), "none"])
