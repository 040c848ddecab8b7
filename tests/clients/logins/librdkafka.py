"""librdkafka behind Python (confluent-kafka) and behind a command line (kcat): the same settings."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import Any

from tests.clients.logins.login import MTLS, OAUTHBEARER, Login
from tests.servers.client_modules import client_module
from tools.toolchains.kcat import have_kcat

SECONDS = 30


def settings(login: Login) -> dict[str, str]:
    """Properties of librdkafka."""
    made = {
        "bootstrap.servers": login.address,
        "security.protocol": login.protocol,
        "ssl.ca.location": login.authority,
    }
    if login.mechanism == MTLS:
        return {**made, "ssl.certificate.location": login.chain, "ssl.key.location": login.key}
    made["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return {
            **made,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": login.token_url,
            "sasl.oauthbearer.client.id": login.name,
            "sasl.oauthbearer.client.secret": login.password,
        }
    return {**made, "sasl.username": login.name, "sasl.password": login.password}


class ConfluentLogins:
    def __init__(self) -> None:
        self._kafka = client_module("confluent_kafka")

    def _fatal(self, errors: Sequence[Any]) -> None:
        """Raise what is not about one broken connection: that is tried again, but for an alert of TLS."""
        passing = (self._kafka.KafkaError._TRANSPORT, self._kafka.KafkaError._ALL_BROKERS_DOWN)
        for error in errors:
            if error.code() not in passing or "alert" in error.str():
                raise self._kafka.KafkaException(error)

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        errors: list[Any] = []
        written: list[Any] = []
        producer = self._kafka.Producer({**settings(login), "error_cb": errors.append, "log_level": 0, "linger.ms": 5})

        def report(error: Any, message: Any) -> None:
            (errors if error is not None else written).append(error or message)

        for value in values:
            producer.produce(topic, value.encode(), partition=0, on_delivery=report)
        deadline = time.monotonic() + SECONDS
        try:
            while len(written) < len(values):
                assert time.monotonic() < deadline, errors
                producer.poll(0.05)
                self._fatal(errors)
        finally:
            producer.purge()
            producer.flush(1)

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        errors: list[Any] = []
        own = {"group.id": topic, "auto.offset.reset": "earliest", "error_cb": errors.append, "log_level": 0}
        consumer = self._kafka.Consumer({**settings(login), **own})
        consumer.subscribe([topic])
        values: list[str] = []
        deadline = time.monotonic() + SECONDS
        try:
            while len(values) < count:
                assert time.monotonic() < deadline, errors
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    values.append(message.value().decode())
                elif message is not None:
                    errors.append(message.error())
                self._fatal(errors)
        finally:
            consumer.close()
        return values

    def close(self) -> None:
        """Every client has ended with its work."""


class KcatLogins:
    """Reads by assignment: its groups wait for more than is asked for."""

    def __init__(self) -> None:
        self._program = str(have_kcat())

    def _run(self, login: Login, *words: str, text: str = "") -> str:
        options = [word for name, value in settings(login).items() for word in ("-X", f"{name}={value}")]
        done = subprocess.run(
            [self._program, *options, *words], input=text, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return done.stdout

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        self._run(login, "-P", "-t", topic, "-p", "0", text="".join(value + "\n" for value in values))

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        return self._run(login, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count)).splitlines()

    def close(self) -> None:
        """Every command has ended."""
