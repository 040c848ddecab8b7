"""Other spellings of settings, and settings without effect: one table, which the documentation shows.

A row with a `setting` is another name for it, in other units where `factor` says so.
A row without one is accepted, and a notice says why it has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_HOUR_MS = 60 * 60 * 1000
_THREADS = "one event loop serves all connections; there are no threads to count"
_CLIENT = "clients decide it"
_STORE = "the metadata store decides it; there is no separate controller"
_MIN_ISR = "min.insync.replicas holds for internal topics, as for all others"


class Alias(Struct, frozen=True):
    """One row."""

    name: str
    setting: str | None = None
    factor: int = 1
    note: str = ""


def _none(note: str, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(name, note=note) for name in names)


ENVIRONMENT = (
    Alias("NODE_ID", "node.id"),
    Alias("BROKER_PORT", "port"),
    Alias("DATA_DIR", "data.dir"),
    Alias("HTTP_PORT", "http.port"),
    Alias("REGISTRY_URL", "registry.url"),
)
"""Variables without our prefix."""

FILE = (
    Alias("broker.id", "node.id"),
    Alias("log.dir", "data.dir"),
    Alias("log.dirs", "data.dir"),
    Alias("log.retention.hours", "log.retention.ms", _HOUR_MS),
    Alias("log.retention.minutes", "log.retention.ms", 60_000),
    Alias("log.roll.hours", "log.roll.ms", _HOUR_MS),
    Alias("broker.node.id", "node.id"),
    Alias("broker.storage.type", "storage.engine"),
    Alias("broker.storage.data-dir", "data.dir"),
    Alias("broker.storage.segment-size", "log.segment.bytes"),
    Alias("broker.network.port", "port"),
    Alias("broker.network.type", "network.type"),
    *_none(_THREADS, "broker.network.threads.boss", "broker.network.threads.worker"),
    Alias("broker.registry.url", "registry.url"),
    Alias("broker.registry.poll-interval", "registry.poll.interval.ms"),
    Alias("broker.pipe.poll-interval", "pipe.poll.interval.ms"),
    Alias("broker.pipe.batch-size", "pipe.batch.size"),
    Alias("host", "host.name"),
    Alias("default_partitions", "num.partitions"),
    Alias("default_replication_factor", "default.replication.factor"),
    Alias("default_retention_seconds", "log.retention.ms", 1000),
    Alias("default_retention_bytes", "log.retention.bytes"),
    *_none("all data lies in data.dir", "memtx_dir", "vinyl_dir"),
    Alias("acks", "http.acks"),
    Alias("max_poll_records", "http.max.poll.records"),
    Alias("session_timeout_ms", "http.session.timeout.ms"),
    Alias("request_timeout_ms", "http.request.timeout.ms"),
    *_none(_CLIENT, "retries", "retry_backoff_ms"),
    *_none(_THREADS, "num.network.threads", "num.io.threads", "background.threads", "log.cleaner.threads"),
    *_none(_THREADS, "num.recovery.threads.per.data.dir", "num.replica.fetchers"),
    *_none("the operating system sizes them", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    *_none(_STORE, "process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers"),
    *_none(_STORE, "controller.listener.names", "zookeeper.connect"),
    *_none(
        "PEM files have none; ssl.key.password is that of a key", "ssl.keystore.password", "ssl.truststore.password"
    ),
    *_none("ssl.enabled.protocols decides it", "ssl.protocol"),
    *_none(_MIN_ISR, "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr"),
)
"""Keys of files, `-X` and, in capitals and with our prefix, the environment."""

BY_VARIABLE: Mapping[str, Alias] = {row.name: row for row in ENVIRONMENT}
BY_KEY: Mapping[str, Alias] = {row.name: row for row in FILE}
