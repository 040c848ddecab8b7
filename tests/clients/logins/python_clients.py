"""kafka-python and aiokafka: pure Python, with similar settings."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.clients.logins.login import MTLS, OAUTHBEARER, Login
from tests.servers.client_modules import client_module

SECONDS = 30


def settings(login: Login) -> dict[str, str]:
    """Arguments of both, without TLS and tokens, which are objects."""
    made = {"bootstrap_servers": login.address, "security_protocol": login.protocol}
    if login.mechanism == MTLS:
        return made
    made["sasl_mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return made
    return {**made, "sasl_plain_username": login.name, "sasl_plain_password": login.password}


def kafka_python_settings(login: Login) -> dict[str, str]:
    """Arguments of kafka-python, without the token provider."""
    made = {**settings(login), "ssl_cafile": login.authority}
    if login.mechanism == MTLS:
        return {**made, "ssl_certfile": login.chain, "ssl_keyfile": login.key}
    return made


def token_provider(base: type, login: Login) -> Any:
    """An object of the client's own class that has the token."""

    class Provider(base):  # type: ignore[misc]
        def token(self) -> str:
            return login.token

    return Provider()


def async_token_provider(base: type, login: Login) -> Any:
    class Provider(base):  # type: ignore[misc]
        async def token(self) -> str:
            return login.token

    return Provider()


class _Heard(logging.Handler):
    """What a client says in its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    @property
    def is_refused(self) -> bool:
        return any("AuthenticationFailed" in line or "alert" in line.lower() for line in self.lines)


@contextmanager
def log_with_errors(name: str) -> Iterator[_Heard]:
    """Add to an exception what the client has said in its log, where it tells causes to nobody else."""
    heard, logger = _Heard(), logging.getLogger(name)
    logger.addHandler(heard)
    try:
        yield heard
    except Exception as fault:
        lines = "\n".join(heard.lines[:10])
        raise RuntimeError(f"{type(fault).__name__}: {fault}\n{lines}") from fault
    finally:
        logger.removeHandler(heard)


class KafkaPythonLogins:
    def __init__(self) -> None:
        self._kafka = client_module("kafka")
        self._provider = client_module("kafka.net.sasl.oauth").AbstractTokenProvider

    def _settings(self, login: Login) -> dict[str, Any]:
        made: dict[str, Any] = {**kafka_python_settings(login), "bootstrap_timeout_ms": 1_000}
        if login.mechanism == OAUTHBEARER:
            made["sasl_oauth_token_provider"] = token_provider(self._provider, login)
        return made

    def _connected(self, make: Callable[[], Any], heard: _Heard) -> Any:
        """It tries until its time is over, whatever the broker says; a slow machine gets more time."""
        for _ in range(SECONDS):
            try:
                return make()
            except self._kafka.errors.KafkaTimeoutError:
                if heard.is_refused:
                    raise
        raise TimeoutError(heard.lines)

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        with log_with_errors("kafka") as heard:
            producer = self._connected(lambda: self._kafka.KafkaProducer(**self._settings(login)), heard)
            try:
                for future in [producer.send(topic, value.encode(), partition=0) for value in values]:
                    future.get(SECONDS)
            finally:
                producer.close(timeout=1)

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        own = {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": SECONDS * 1000}
        with log_with_errors("kafka") as heard:
            consumer = self._connected(lambda: self._kafka.KafkaConsumer(topic, **self._settings(login), **own), heard)
            try:
                return [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]
            finally:
                consumer.close()

    def close(self) -> None:
        """Every client has ended with its work."""


class AioKafkaLogins:
    def __init__(self) -> None:
        self._kafka = client_module("aiokafka")
        self._provider = client_module("aiokafka.abc").AbstractTokenProvider

    def _settings(self, login: Login) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=login.authority)
        if login.mechanism == MTLS:
            context.load_cert_chain(login.chain, login.key)
        made: dict[str, Any] = {**settings(login), "ssl_context": context}
        if login.mechanism == OAUTHBEARER:
            made["sasl_oauth_token_provider"] = async_token_provider(self._provider, login)
        return made

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        async def work() -> None:
            async with self._kafka.AIOKafkaProducer(**self._settings(login)) as producer:
                for value in values:
                    await producer.send_and_wait(topic, value.encode(), partition=0)

        with log_with_errors("aiokafka"):
            asyncio.run(asyncio.wait_for(work(), SECONDS))

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        async def work() -> list[str]:
            own = {"group_id": topic, "auto_offset_reset": "earliest"}
            async with self._kafka.AIOKafkaConsumer(topic, **self._settings(login), **own) as consumer:
                return [(await consumer.getone()).value.decode() for _ in range(count)]

        with log_with_errors("aiokafka"):
            return asyncio.run(asyncio.wait_for(work(), SECONDS))

    def close(self) -> None:
        """Every client has ended with its work."""
