"""Settings that belong to the node itself and to none of its parts."""

from __future__ import annotations

from qanat.app.settings.environments import Environment
from qanat.model.settings import Settings


class OwnSettings(Settings, frozen=True):
    """The node's identity, its data directory and its addresses."""

    node_id: str = "0"
    """Number of this node, or a name such as `local-001`, which gets a permanent number of its own."""
    data_dir: str = "data"
    """Directory of all data: `metadata.db` and `broker-<id>/`."""
    environment: Environment = "dev"
    """What the broker is for: `dev`, `staging` or `production`, which refuses to start with what is unsafe
    (docs/operating/environments.md). `staging` warns of it. Both create no topics by themselves."""
    storage_engine: str = "file"
    """Storage engine of the logs: `file` (also called `mmap`), or `memory`, which loses everything when it stops."""
    network_type: str = "tcp"
    """Network of Kafka's listeners, of push and of the links between brokers: `tcp`, or one that a package brings."""
    listeners: str | None = None
    """Addresses to listen on in Kafka's syntax: `PLAINTEXT://127.0.0.1:9092,SASL_SSL://0.0.0.0:9093`; instead of
    `host.name`, `port` and `listener.security.protocol`."""
    advertised_listeners: str | None = None
    """Addresses that clients connect to, in the same syntax; instead of `advertised.host.name`, `advertised.port`."""
    listener_security_protocol_map: str | None = None
    """Security protocol of a listener that has a name of its own, in Kafka's syntax: `CLIENTS:SASL_PLAINTEXT`."""
    inter_broker_listener_name: str | None = None
    """The one of `listeners` that brokers use among themselves; instead of `inter.broker.port`."""
