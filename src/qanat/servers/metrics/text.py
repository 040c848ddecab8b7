"""All metrics as the text that Prometheus reads.

It is made in pieces, with a yield in between, so that ten thousand topics do not hold the requests of clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qanat.broker.broker import Broker
from qanat.servers.kafka.listener import KafkaListener
from qanat.servers.metrics.families import FAMILIES
from qanat.servers.metrics.observed import Observed
from qanat.servers.metrics.process import LoopLag
from qanat.telemetry.http_counters import HttpCounters

if TYPE_CHECKING:
    from qanat.servers.tls.listener_tls import ListenerTls

_LINES_AT_ONCE = 500


class MetricsText:
    """The text of one broker's metrics; `start` and `close` measure the lag of the loop."""

    def __init__(self, broker: Broker, kafka: KafkaListener) -> None:
        self._broker = broker
        self._kafka = kafka
        self._lag = LoopLag()
        self.http: HttpCounters | None = None
        """Set where HTTP is served."""
        self.certificates: Sequence[ListenerTls] = ()
        """The TLS of every listener that has it."""

    def start(self) -> None:
        self._lag.start()

    def close(self) -> None:
        self._lag.close()

    async def text(self) -> bytes:
        """All metrics, as of now; lag as of the collector's last pass, which the first scrape begins."""
        self._broker.group_lag.touch()
        observed = Observed(self._broker, self._kafka, self._lag, self.http, self.certificates)
        pieces: list[str] = []
        for family in FAMILIES:
            for line in family.lines(observed):
                pieces.append(line)
                if not line or len(pieces) % _LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return "".join(pieces).encode()
