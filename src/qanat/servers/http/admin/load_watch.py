"""The load watch: readings of all brokers, taken every few seconds while someone asks for a diagnosis.

All tabs and scripts read the same readings. Rule: it starts with the first question, and stops when none came for two
minutes; what brokers pay for being watched is bounded there (`broker.load_sampler`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from qanat.api.configs.broker_load import NAME
from qanat.api.configs.config_resources import ResourceType
from qanat.diagnosis.readings import BrokerReading, ClusterReading
from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.kafka_gateway import KafkaGateway

PASS_S = 2.5
KEPT_S = 65.0
IDLE_S = 120.0
_FIRST_S = 6.0
"""How long the first question waits for a window."""


class _Pass(NamedTuple):
    at_s: float
    readings: ClusterReading


class LoadWatch:
    """The readings of the last minute."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._asked_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._passes: deque[_Pass] = deque()
        self._has_window = asyncio.Event()

    async def window(self, seconds: float) -> tuple[ClusterReading, ClusterReading]:
        """The newest readings, and those of so many seconds before; of a shorter time where no more has passed."""
        self._asked_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = self._gateway.broker.park(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_S):
                await self._has_window.wait()
        if not self._passes:
            return {}, {}
        newest = self._passes[-1]
        before = [one for one in self._passes if newest.at_s - one.at_s >= seconds]
        return (before[-1] if before else self._passes[0]).readings, newest.readings

    async def _run(self) -> None:
        try:
            while time.monotonic() - self._asked_s < IDLE_S:
                nodes = sorted(self._gateway.broker.metadata.image.brokers)
                found = await asyncio.gather(*(self._read(node_id) for node_id in nodes))
                now_s = time.monotonic()
                self._passes.append(_Pass(now_s, {one.node_id: one for one in found if one is not None}))
                while now_s - self._passes[0].at_s > KEPT_S:
                    self._passes.popleft()
                if len(self._passes) > 1:
                    self._has_window.set()
                await asyncio.sleep(PASS_S)
        finally:
            self._passes.clear()
            self._has_window.clear()

    async def _read(self, node_id: int) -> BrokerReading | None:
        """The reading of a broker; None where it does not answer, or is older than this one."""
        request = DescribeConfigsRequest([DescribeConfigsResource(ResourceType.BROKER, str(node_id), [NAME])])
        gateway = self._gateway
        try:
            async with asyncio.timeout(_FIRST_S):
                response: DescribeConfigsResponse = await gateway.call(
                    gateway.own_caller, ApiKey.DESCRIBE_CONFIGS, request, node_id
                )
        except (Problem, QanatError, TimeoutError):
            return None
        text = next((one.value for one in response.results[0].configs if one.name == NAME), None)
        try:
            return None if text is None else msgspec.json.decode(text, type=BrokerReading)
        except msgspec.MsgspecError:
            return None  # It is of another version: it counts as not seen.
