"""The settings of one node, package by package."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from qanat.app.settings.environments import Environment
from qanat.app.settings.handler_settings import HandlerSettings
from qanat.app.settings.listeners import ListenerAddress
from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.edge.settings import EdgeSettings
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings
from qanat.servers.http.settings import NOT_SERVED, HttpSettings
from qanat.transactions.settings import TransactionSettings

BUILT_IN_NETWORK = "tcp"
"""The network that needs no package."""


class NodeSettings(Struct, frozen=True):
    """All settings of one node."""

    data_dir: str = "data"
    node_id: int | str = 0
    """A number, or a name that stands for one."""
    environment: Environment = "dev"
    storage_engine: str = "file"
    network_type: str = BUILT_IN_NETWORK
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    directory: DirectorySettings = field(default_factory=DirectorySettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    listeners: tuple[ListenerAddress, ...] = ()
    """Kafka's listeners, where there are several: one alone is in `broker` and `security`."""
    listener_name: str | None = None
    """The name of a listener that is alone, where it is not its protocol."""
    advertised_listeners: tuple[ListenerAddress, ...] = ()
    """Their addresses for clients, by their names; they are alone as above."""
    inter_broker_listener_name: str | None = None
    listener_overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`listener.name.<name>.*`, by the name of the listener."""
    http: HttpSettings = field(default_factory=lambda: HttpSettings(http_port=NOT_SERVED))
    handlers: HandlerSettings = field(default_factory=HandlerSettings)
    edge: EdgeSettings = field(default_factory=EdgeSettings)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that hold where a topic has none of its own."""
