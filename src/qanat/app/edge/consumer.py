"""`qanat edge consumer`: an application that keeps what a broker pushes, and answers queries from it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import assignments
from qanat.app.client.client_settings import settings_of, settings_of_environment, settings_of_file
from qanat.app.edge.consuming.settings import ConsumerSettings, load
from qanat.app.node.event_log import LogFormat, configure
from qanat.app.node.event_loop import listen_to_signals, loop_factory
from qanat.app.node.service_manager import ServiceManager
from qanat.app.settings.source_value import SourceValue
from qanat.connection.security import MEANINGS as SECURITY
from qanat.connection.tls import context_of
from qanat.telemetry.events import LogLevel, log_event


def consumer(
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    topic: str | None = None,
    type_: Annotated[str | None, Parameter(name="--type")] = None,
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    port: int | None = None,
    host: str | None = None,
    allowed_hosts: str | None = None,
    broker_host: str | None = None,
    broker_port: int | None = None,
    data_dir: Annotated[str | None, Parameter(metavar="PATH")] = None,
    segment_bytes: int | None = None,
    retention_bytes: int | None = None,
    retention_ms: int | None = None,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="")] = None,
    command_config: Annotated[str | None, Parameter(name=["--command-config", "-F"])] = None,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> int:
    """Keep what a broker pushes in local segments, and answer REST queries from them, until Ctrl-C or SIGTERM.

    Settings come from defaults, then the file, then the environment, then flags; later ones win.

        qanat edge consumer --topic price-topic --group price-group
        CONSUMER_TYPE=price CONSUMER_TOPIC=price-topic CONSUMER_GROUP=price-group CONSUMER_PORT=8082 \
            BROKER_HOST=localhost BROKER_PORT=9092 STORAGE_DATA_DIR=./consumer-data qanat edge consumer

    It answers from the start with what it has, and connects again for as long as it takes.

    Exit codes: 0 clean shutdown, 1 could not start (one sentence says why), 2 wrong usage.

    Parameters
    ----------
    config:
        Settings file: YAML, as `consumer: {topic: price-topic}`, with `${VARIABLE:default}`.
    topic:
        The topic, or several with commas (CONSUMER_TOPIC).
    type_:
        What the application is called in answers, metrics and at the broker (CONSUMER_TYPE); the topic otherwise.
    group:
        The consumer group (CONSUMER_GROUP): its applications share the partitions. Without one each has everything.
    port:
        Port of the REST server (CONSUMER_PORT), 8082; 0 takes a free one.
    host:
        Address of the REST server (CONSUMER_HOST), 127.0.0.1; it has no authentication.
    allowed_hosts:
        Names by which clients may call it, with commas (CONSUMER_ALLOWED_HOSTS), besides addresses.
    broker_host:
        Host of the broker (BROKER_HOST), localhost.
    broker_port:
        Port of the broker's Kafka listener, or its push.port (BROKER_PORT), 9092.
    data_dir:
        Directory of all data (STORAGE_DATA_DIR), ./consumer-data.
    segment_bytes:
        A segment is closed before it would grow beyond this (STORAGE_SEGMENT_BYTES).
    retention_bytes:
        Delete the oldest segments of a partition that is larger (STORAGE_RETENTION_BYTES); -1 keeps them.
    retention_ms:
        Delete segments whose records are all older (STORAGE_RETENTION_MS); -1 keeps them.
    settings:
        TLS and SASL in the names of Kafka's clients, as often as needed: -X security.protocol=SSL.
    command_config:
        A file with such settings, a line each; the right place for passwords.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events to log.
    """
    flags = (
        ("consumer.topic", topic, "--topic"),
        ("consumer.type", type_, "--type"),
        ("consumer.group", group, "--group"),
        ("consumer.port", port, "--port"),
        ("consumer.host", host, "--host"),
        ("consumer.allowed.hosts", allowed_hosts, "--allowed-hosts"),
        ("broker.host", broker_host, "--broker-host"),
        ("broker.port", broker_port, "--broker-port"),
        ("storage.data.dir", data_dir, "--data-dir"),
        ("storage.segment.bytes", segment_bytes, "--segment-bytes"),
        ("storage.retention.bytes", retention_bytes, "--retention-bytes"),
        ("storage.retention.ms", retention_ms, "--retention-ms"),
    )
    values = [SourceValue(name, str(value), spelling) for name, value, spelling in flags if value is not None]
    loaded = load(values, config, os.environ)
    protection = _protection(settings or [], command_config)
    configure(log_format, log_level)
    manager = ServiceManager(os.environ)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(loaded, protection, manager))


def _protection(flags: list[str], file: str | None) -> dict[str, str]:
    """TLS and SASL settings of flags, file and environment."""
    environment = settings_of_environment(os.environ)
    given = settings_of(assignments(flags), "-X")
    if file is not None:
        given = given.over(settings_of_file(file))
    resolved = given.over(environment).without_idle(environment)
    security = resolved.security()  # Raises before anything is started.
    if security.tls is not None:
        context_of(security.tls)  # So does a file that is not there.
    return {name: value for name, value in resolved.values.items() if name in SECURITY}


async def _serve(settings: ConsumerSettings, protection: dict[str, str], manager: ServiceManager) -> int:
    from qanat.app.edge.consuming.application import ConsumerApplication

    stop = asyncio.Event()
    listen_to_signals(stop)
    broker = f"{settings.broker_host}:{settings.broker_port}"
    async with manager.watched(), ConsumerApplication(settings, protection) as application:
        line = f"{settings.type} consumer: {', '.join(settings.topics)} from {broker}, {application.address}"
        print(line, flush=True)
        log_event("started", broker=broker, http=application.address, data=settings.storage_data_dir)
        manager.ready(f"serving on {application.address}")
        await stop.wait()
        manager.stopping()
        log_event("stopping")
    log_event("stopped")
    return 0
