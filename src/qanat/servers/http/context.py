"""The parts that all HTTP operations share: the gateway to the broker, settings, limits, counters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qanat.servers.http.admin.load_watch import LoadWatch
from qanat.servers.http.admin.partition_problems import PartitionProblems
from qanat.servers.http.admin.traffic import Traffic
from qanat.servers.http.authentication import HttpAuthentication
from qanat.servers.http.caller import CLIENT_ID
from qanat.servers.http.cors import AllowedOrigins
from qanat.servers.http.edge.up_sessions import UpSessions
from qanat.servers.http.groups.lag_reports import LagReports
from qanat.servers.http.groups.members import Members
from qanat.servers.http.kafka_gateway import KafkaGateway
from qanat.servers.http.kept_answers import KeptAnswers
from qanat.servers.http.known_hosts import KnownHosts
from qanat.servers.http.records.idempotency import Idempotency
from qanat.servers.http.records.partition_reads import PartitionReads
from qanat.servers.http.records.record_routing import RecordRouter
from qanat.servers.http.sessions import Sessions
from qanat.servers.http.settings import HttpSettings
from qanat.servers.http.streams.stream_limits import Streams
from qanat.servers.http.topic_lookup import TopicLookup
from qanat.telemetry.http_counters import HttpCounters

if TYPE_CHECKING:
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.metrics.text import MetricsText


class HttpContext:
    """The parts of one HTTP listener."""

    def __init__(
        self,
        broker: Broker,
        intercepted: Intercepted,
        settings: HttpSettings,
        metrics: MetricsText,
        security: ListenerSecurity | None = None,
    ) -> None:
        self.broker = broker
        self.settings = settings
        guard = None if security is None else security.login_guard
        self.authentication = HttpAuthentication(
            None if security is None else security.mechanisms, guard, broker.metadata.image
        )
        self.sessions = Sessions(self.authentication)
        self.hosts = KnownHosts(settings.allowed_hosts, broker.metadata.image)
        self.origins = AllowedOrigins(settings.cors_allowed_origins)
        self.gateway = KafkaGateway(broker, intercepted, security, settings.http_request_timeout_ms / 1000)
        self.topics = TopicLookup(self.gateway)
        self.router = RecordRouter(self.gateway)
        self.reads = PartitionReads(self.gateway)
        self.idempotency = Idempotency(self.gateway, self.reads, settings)
        self.members = Members(self.gateway)
        self.up_sessions = UpSessions(self.gateway)
        self.lags = LagReports(self.gateway)
        self.traffic = Traffic(self.gateway)
        self.load = LoadWatch(self.gateway)
        self.listings = KeptAnswers()
        self.partition_problems = PartitionProblems(broker)
        self.streams = Streams(settings.http_streams_per_client)
        self.searching = asyncio.Semaphore(1)
        """Whoever searches records waits for it."""
        self.counters = HttpCounters()
        self.metrics = metrics
        self.metrics.http = self.counters
        self.is_stopping = False
        broker.groups.client_sessions_ms[CLIENT_ID] = settings.http_session_timeout_ms

    def start(self) -> None:
        self.metrics.start()

    def close(self) -> None:
        self.gateway.links.close()
        self.metrics.close()
