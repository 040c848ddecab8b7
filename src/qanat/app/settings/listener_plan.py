"""The listeners of a node, resolved from its settings: for clients, for brokers, for HTTP, for metrics.

Each has its own copy of the security settings, with `listener.name.<name>.*` over the common ones.

Rule: a listener beyond loopback without authentication is refused, unless `allow.unauthenticated.clients` allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from qanat.app.settings.listener_names import BOOTSTRAP_PORT, OF_SECURITY
from qanat.app.settings.node_settings import NodeSettings
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings
from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings
from qanat.servers.http.settings import NOT_SERVED

INTERNAL = "INTERNAL"
"""The listener of `inter.broker.port`."""
_STORES = (
    ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
    ("ssl.truststore.location", "ssl.truststore.certificates"),
)
"""Settings that say the same in other forms: an override of one replaces all."""
_Common = TypeVar("_Common", bound=Settings)


class PlannedListener(Struct, frozen=True):
    """One listener, with the security that holds for it."""

    name: str
    host: str
    port: int
    protocol: str
    security: SecuritySettings
    tls: TlsSettings
    advertised_host: str | None = None
    advertised_port: int | None = None
    bootstrap_port: int | None = None
    is_inter_broker: bool = False

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def requires_authentication(self) -> bool:
        return self.has_sasl or (self.has_tls and self.tls.ssl_client_auth == "required")

    @property
    def asks_for_identity(self) -> bool:
        """Whether clients can have a principal of their own."""
        return self.has_sasl or (self.has_tls and self.tls.ssl_client_auth != "none")

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


class ListenerPlan(Struct, frozen=True):
    """All listeners of a node."""

    clients: tuple[PlannedListener, ...]
    """Kafka's, for clients; the first one is the one that is shown."""
    inter_broker: PlannedListener | None
    http: PlannedListener | None
    metrics: PlannedListener | None

    @property
    def all(self) -> Iterable[PlannedListener]:
        others = (self.inter_broker, self.http, self.metrics)
        return (*self.clients, *(one for one in others if one is not None))


def plan_listeners(settings: NodeSettings) -> ListenerPlan:
    """The listeners of a node; raises `InvalidSettingError` where they do not fit together."""
    kafka = _kafka_listeners(settings)
    name = settings.inter_broker_listener_name
    inter_broker = None
    if name is not None:
        inter_broker = next((one for one in kafka if one.name == name), None)
        if inter_broker is None or len(kafka) == 1:
            raise InvalidSettingError(
                f"inter.broker.listener.name is {name}, but listeners has {', '.join(one.name for one in kafka)}: "
                "brokers need a listener of their own among them"
            )
        kafka = tuple(one for one in kafka if one is not inter_broker)
    elif settings.broker.inter_broker_port is not None:
        inter_broker = _own_inter_broker(settings, kafka)
    _refuse_unknown_overrides(settings, (*kafka, *([inter_broker] if inter_broker else [])))
    plan = ListenerPlan(kafka, inter_broker, _http(settings, kafka), _metrics(settings))
    for one in plan.all:
        _check(one)
    return plan


def _kafka_listeners(settings: NodeSettings) -> tuple[PlannedListener, ...]:
    broker, advertised = settings.broker, {one.name: one for one in settings.advertised_listeners}
    if not settings.listeners:
        protocol = settings.security.listener_security_protocol
        name = settings.listener_name or protocol
        return (
            _planned(
                settings,
                (name, broker.host_name, broker.port, protocol),
                (broker.advertised_host_name, broker.advertised_port),
            ),
        )
    unknown = [name for name in advertised if name not in {one.name for one in settings.listeners}]
    if unknown:
        raise InvalidSettingError(f"advertised.listeners has {unknown[0]}, which listeners has not")
    return tuple(
        _planned(
            settings,
            one,
            (advertised[one.name].host, advertised[one.name].port) if one.name in advertised else (None, None),
            is_inter_broker=one.name == settings.inter_broker_listener_name,
        )
        for one in settings.listeners
    )


def _own_inter_broker(settings: NodeSettings, clients: Iterable[PlannedListener]) -> PlannedListener:
    """The listener of `inter.broker.port`."""
    broker = settings.broker
    assert broker.inter_broker_port is not None
    protocol = settings.security.security_inter_broker_protocol or _usual_protocol(clients)
    return _planned(
        settings,
        (INTERNAL, broker.host_name, broker.inter_broker_port, protocol),
        (broker.advertised_host_name, None),
        is_inter_broker=True,
    )


def _usual_protocol(clients: Iterable[PlannedListener]) -> str:
    """The protocol of the first listener that requires authentication: what it protects, no other one gives away."""
    return next((one.protocol for one in clients if one.requires_authentication), "PLAINTEXT")


def _http(settings: NodeSettings, clients: Iterable[PlannedListener]) -> PlannedListener | None:
    http = settings.http
    if http.http_port == NOT_SERVED:
        return None
    protocol = http.http_security_protocol or _usual_protocol(clients)
    return _planned(settings, ("HTTP", http.http_host_name, http.http_port or 0, protocol))


def _metrics(settings: NodeSettings) -> PlannedListener | None:
    broker = settings.broker
    if broker.metrics_port is None:
        return None
    address = ("METRICS", broker.metrics_host_name, broker.metrics_port, broker.metrics_security_protocol)
    return _planned(settings, address)


def _planned(
    settings: NodeSettings,
    address: tuple[str, str, int, str],
    advertised: tuple[str | None, int | None] = (None, None),
    *,
    is_inter_broker: bool = False,
) -> PlannedListener:
    name, host, port, protocol = address
    overrides = settings.listener_overrides.get(name, {})
    bootstrap = overrides.get(BOOTSTRAP_PORT)
    # A bootstrap port of a node is that of its first listener; others name theirs.
    usual = settings.broker.bootstrap_port if not settings.listeners and not is_inter_broker else None
    return PlannedListener(
        name,
        host,
        port,
        protocol,
        _overridden(settings.security, {key: value for key, value in overrides.items() if key in OF_SECURITY}),
        _overridden(settings.tls, {key: value for key, value in overrides.items() if key.startswith("ssl.")}),
        *advertised,
        bootstrap_port=usual if bootstrap is None else int(bootstrap),
        is_inter_broker=is_inter_broker,
    )


def _overridden(settings: _Common, overrides: Mapping[str, str]) -> _Common:
    if not overrides:
        return settings
    replaced = {name for names in _STORES if overrides.keys() & set(names) for name in names}
    fields = zip(settings.__struct_encode_fields__, settings.__struct_fields__, strict=True)
    common = {name: getattr(settings, field) for name, field in fields if name not in replaced}
    return type(settings).parse({**{name: value for name, value in common.items() if value is not None}, **overrides})


def _refuse_unknown_overrides(settings: NodeSettings, kafka: Iterable[PlannedListener]) -> None:
    names = [*(one.name for one in kafka), "HTTP", "METRICS"]
    for name in settings.listener_overrides:
        if name not in names:
            setting = next(iter(settings.listener_overrides[name]))
            raise InvalidSettingError(
                f"listener.name.{name.lower()}.{setting}: there is no listener {name}; there are {', '.join(names)}"
            )


def _check(one: PlannedListener) -> None:
    if one.has_tls and not one.tls.has_certificate:
        raise InvalidSettingError(
            f"listener {one.name} speaks {one.protocol} and has no certificate: set ssl.keystore.location to a PEM "
            "file with its key and chain"
        )
    if not one.is_loopback and not one.requires_authentication and not one.security.allow_unauthenticated_clients:
        raise InvalidSettingError(
            f"listener {one.name} on {one.host or '0.0.0.0'} can be reached from other hosts, and {one.protocol} lets "
            "every client in: require authentication (docs/security/listeners.md), listen on 127.0.0.1, or set "
            f"{_allowing(one)}=true"
        )


def _allowing(one: PlannedListener) -> str:
    setting = "allow.unauthenticated.clients"
    return f"listener.name.{one.name.lower()}.{setting}" if one.name in ("HTTP", "METRICS") else setting
