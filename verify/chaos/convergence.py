"""Convergence of a cluster as a client sees it: every partition has a leader that answers, and all replicas in sync.

Checked in this order: a leader that answers was elected among the running processes, so that the in-sync set is not an
old one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

_LOOK_S = 0.2
_CALL_S = 5.0
_SETTLE_S = 0.5
"""Between the leaders' answers and the check of in-sync sets: brokers learn of a change by polling."""


class Convergence:
    """Waits for convergence. Each wait uses a new client, without cached metadata."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self._bootstrap, self._replicas = bootstrap, replicas

    async def until_led(self, seconds: float) -> list[str]:
        """Wait until every partition has a leader; returns those without one at the end."""
        admin = self._client()
        return await _until_empty(lambda: _not_led(admin), seconds)

    async def until_in_sync(self, seconds: float) -> list[str]:
        """Wait until every replica of every partition is in sync; returns the other partitions at the end."""
        admin, deadline = self._client(), time.monotonic() + seconds
        if wrong := await _until_empty(lambda: _not_led(admin), seconds):
            return wrong
        await asyncio.sleep(_SETTLE_S)
        return await _until_empty(lambda: self._not_in_sync(admin), deadline - time.monotonic())

    def _client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})

    def _not_in_sync(self, admin: AdminClient) -> list[str]:
        return [
            f"{topic}-{number} has {nodes} in sync"
            for (topic, number), nodes in _in_sync(admin).items()
            if len(nodes) < self._replicas
        ]


def _not_led(admin: AdminClient) -> list[str]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): latest for topic, number in _in_sync(admin)}
    answers = admin.list_offsets(wanted, request_timeout=_CALL_S)
    return [f"{at.topic}-{at.partition} has no leader" for at, answer in answers.items() if answer.exception()]


def _in_sync(admin: AdminClient) -> dict[tuple[str, int], list[int]]:
    topics = admin.list_topics(timeout=_CALL_S).topics.values()
    return {(str(topic.topic), one.id): one.isrs for topic in topics for one in topic.partitions.values()}


async def _until_empty(look: Callable[[], list[str]], seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while True:
        try:
            wrong = await asyncio.to_thread(look)
        except KafkaException as fault:
            wrong = [f"no broker answers: {fault}"]
        if not wrong or time.monotonic() > deadline:
            return wrong
        await asyncio.sleep(_LOOK_S)
