"""What all operations of this door share: the broker it asks, its settings, and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.servers.http.caller import CLIENT_ID
from qanat.servers.http.groups.members import Members
from qanat.servers.http.kafka_gateway import KafkaGateway
from qanat.servers.http.records.idempotency import Idempotency
from qanat.servers.http.records.partition_reads import Reading
from qanat.servers.http.records.record_routing import Producing
from qanat.servers.http.settings import HttpSettings
from qanat.servers.http.streams.stream_limits import Streams
from qanat.servers.http.topic_lookup import Topics
from qanat.servers.metrics.text import MetricsText
from qanat.telemetry.http_counters import HttpCounters

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.servers.kafka.listener import KafkaListener
    from qanat.servers.kafka.listener_security import ListenerSecurity


class HttpContext:
    """The parts, made once."""

    def __init__(
        self,
        broker: Broker,
        kafka: KafkaListener,
        settings: HttpSettings,
        gate: ListenerSecurity | None = None,
    ) -> None:
        self.broker = broker
        self.kafka = kafka
        self.settings = settings
        self.mechanisms = None if gate is None else gate.mechanisms
        """How callers authenticate; None where nobody has to."""
        self.asking = KafkaGateway(broker, kafka.dispatcher, gate, settings.http_request_timeout_ms / 1000)
        self.topics = Topics(self.asking)
        self.producing = Producing(self.asking)
        self.reading = Reading(self.asking)
        self.idempotency = Idempotency(self)
        self.members = Members(self)
        self.streams = Streams(settings.http_streams_per_client)
        self.counters = HttpCounters()
        self.metrics = MetricsText(broker, kafka)
        self.metrics.http = self.counters
        self.is_stopping = False
        broker.groups.client_sessions_ms[CLIENT_ID] = settings.http_session_timeout_ms

    def start(self) -> None:
        self.metrics.start()

    def close(self) -> None:
        self.asking.links.close()
        self.metrics.close()
