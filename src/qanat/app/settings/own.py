"""Settings that belong to the node itself and to none of its parts."""

from __future__ import annotations

from qanat.model.settings import Settings


class OwnSettings(Settings, frozen=True):
    """Who the node is, where its data lies and under which addresses it is reached."""

    node_id: str = "0"
    """Number of this node, or a name such as `local-001`, which gets a number of its own and keeps it."""
    data_dir: str = "data"
    """Directory of everything that is kept: `metadata.db` and `broker-<id>/`."""
    storage_engine: str = "file"
    """Which installed storage engine keeps the logs: `file` (also called `mmap`) or `memory`, which keeps nothing."""
    listeners: str | None = None
    """Address to listen on in Kafka's syntax, `PLAINTEXT://host:port` or `SASL_PLAINTEXT://host:port`; instead of
    `host.name`, `port` and `listener.security.protocol`."""
    advertised_listeners: str | None = None
    """Address that clients are told, in the same syntax; instead of `advertised.host.name` and `advertised.port`."""
    listener_security_protocol_map: str | None = None
    """What a listener with a name of its own asks of clients, in Kafka's syntax: `CLIENTS:SASL_PLAINTEXT`."""
