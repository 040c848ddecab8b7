"""Clients under fire: writers and readers on librdkafka and aiokafka, each in a thread of its own.

An error is a fault unless retrying helps: connections that break and brokers that are gone are expected. A wrong
password is expected for a moment while it is being changed: brokers learn it within a second, and a user has one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, Message, Producer

from verify.chaos.client import acknowledged_offset

CHANGED_S = 3.0
"""How long a login may fail after a change of the user's password."""
FINISH_S = 90.0
_RETRIABLE = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._PARTITION_EOF,
)
OPTIONS: Mapping[str, Any] = {
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.interval.ms": 5000,
    "log_level": 0,
}


class Errors:
    """What clients met, by kind; thread-safe by the interpreter's lock."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.retriable = 0
        self.changing = 0
        """Logins that failed while their password was being changed."""
        self._changed_s: dict[str, float] = {}

    def password_changes(self, user: str) -> None:
        self._changed_s[user] = time.monotonic()

    def note(self, user: str, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION and time.monotonic() - self._changed_s.get(user, -99) < CHANGED_S:
            self.changing += 1
        elif not error.fatal() and (error.retriable() or error.code() in _RETRIABLE or _is_cut_login(error)):
            self.retriable += 1
        else:
            self.fault(user, f"{error.name()}: {error.str()}")

    def fault(self, user: str, text: str) -> None:
        self.faults.append(f"client of {user}: {text}")


def _is_cut_login(error: KafkaError) -> bool:
    """Whether a broker went away in the middle of a login, which librdkafka calls an error of authentication: the
    reason is the client's own (transport failure, timeout), and not an answer."""
    return error.code() == KafkaError._AUTHENTICATION and "handshake failed: Local: " in error.str()


class Ledger:
    """Acknowledged records of a topic, with their partitions and offsets, and what its group has read."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.read: set[bytes] = set()
        self._last = 0

    def next_value(self, user: str) -> bytes:
        self._last += 1
        return f"{user}/{self._last}".encode()

    def __len__(self) -> int:
        return len(self.acknowledged)


class FireClient(ABC):
    """A thread that works until it is told to finish, and finishes what it began."""

    def __init__(self, user: str, errors: Errors) -> None:
        self.user = user
        self.errors = errors
        self._new_password: str | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=user, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def use_password(self, password: str) -> None:
        """Log in with another password from now on; returns when the client has it."""
        self._new_password = password
        wait_until(lambda: self._new_password is None, "the client takes its new password")

    def take_password(self, client: Producer | Consumer) -> None:
        """Called by the thread that polls: in another one, librdkafka's consumer waits for the poll for ever."""
        if self._new_password is not None:
            client.set_sasl_credentials(self.user, self._new_password)
            self._new_password = None

    def finish(self) -> None:
        """Return when the last record is acknowledged."""
        self._is_over.set()
        self._thread.join(FINISH_S + 30)
        if self._thread.is_alive():
            self.errors.fault(self.user, "does not end")

    def _run(self) -> None:
        try:
            self.work()
        except Exception as fault:  # noqa: BLE001 - whatever ends a client is a fault
            self.errors.fault(self.user, f"ended by {type(fault).__name__}: {fault}")

    @abstractmethod
    def work(self) -> None:
        """Produce or consume until `finish`."""


class Writer(FireClient):
    """An idempotent producer on librdkafka."""

    def __init__(
        self, user: str, topic: str, ledger: Ledger, errors: Errors, security: Mapping[str, Any], rate: int = 100
    ) -> None:
        super().__init__(user, errors)
        self._topic, self._ledger, self._rate = topic, ledger, rate
        more = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        self._client = Producer({**OPTIONS, **more, **security, "error_cb": lambda one: errors.note(user, one)})

    def work(self) -> None:
        while not self.is_over:
            self.take_password(self._client)
            self._client.produce(self._topic, self._ledger.next_value(self.user), on_delivery=self._settle)
            self._client.poll(1 / self._rate)
        left = self._client.flush(FINISH_S)
        if left:
            self.errors.fault(self.user, f"{left} records are not acknowledged {FINISH_S:.0f} s after the end")

    def _settle(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.fault(self.user, f"a record was given up: {error.name()}: {error.str()}")
        else:
            at = message.partition() or 0, acknowledged_offset(message)
            self._ledger.acknowledged[message.value() or b""] = at


class AioWriter(FireClient):
    """An idempotent producer on aiokafka."""

    def __init__(self, user: str, topic: str, ledger: Ledger, errors: Errors, options: Mapping[str, Any]) -> None:
        super().__init__(user, errors)
        self._topic, self._ledger, self._options = topic, ledger, options

    def work(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        asyncio.run(self._work())

    async def _work(self) -> None:
        options = {**self._options}
        if authority := options.pop("authority", None):
            options["ssl_context"] = ssl.create_default_context(cafile=authority)
        producer = AIOKafkaProducer(enable_idempotence=True, request_timeout_ms=60_000, **options)
        await producer.start()
        try:
            while not self.is_over:
                value = self._ledger.next_value(self.user)
                sent = await producer.send_and_wait(self._topic, value)
                self._ledger.acknowledged[value] = sent.partition, sent.offset
                await asyncio.sleep(0.02)
        finally:
            await producer.stop()


class Reader(FireClient):
    """A member of a group on librdkafka. It ends when the group has read all that was acknowledged until then."""

    def __init__(self, user: str, topic: str, ledger: Ledger, errors: Errors, security: Mapping[str, Any]) -> None:
        super().__init__(user, errors)
        self._topic, self._ledger = topic, ledger
        more = {"group.id": "fire", "auto.offset.reset": "earliest", "session.timeout.ms": 10_000}
        self._client = Consumer({**OPTIONS, **more, **security, "error_cb": lambda one: errors.note(user, one)})

    def work(self) -> None:
        self._client.subscribe([self._topic])
        while not self.is_over:
            self.take_password(self._client)
            self._read()
        wanted, deadline = set(self._ledger.acknowledged), time.monotonic() + FINISH_S
        while (missing := wanted - self._ledger.read) and time.monotonic() < deadline:
            self._read()
        if missing:
            self.errors.fault(self.user, f"{len(missing)} acknowledged records were not read by the group")
        self._client.close()

    def _read(self) -> None:
        for message in self._client.consume(500, 0.2):
            error = message.error()
            if error is None:
                self._ledger.read.add(message.value() or b"")
            else:
                self.errors.note(self.user, error)


def wait_until(is_so: Callable[[], bool], what: str, timeout_s: float = FINISH_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"in vain: {what}")
        time.sleep(0.05)


def wait_for_progress(ledgers: Iterable[Ledger], records: int = 20) -> None:
    """Wait until every ledger has so many more acknowledged records: all writers work."""
    marks = [(ledger, len(ledger) + records) for ledger in ledgers]
    wait_until(lambda: all(len(ledger) >= mark for ledger, mark in marks), "writers make progress")
