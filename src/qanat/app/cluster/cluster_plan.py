"""The plan of a local cluster: broker i listens on 9092 + i, for other brokers on 19092 + i, for HTTP on 8080 + i.

The brokers share one data directory, in which each has a folder of its own, and one metadata store. With `listeners`
or `metrics.port` among the settings, broker i has each of them on its port + i.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qanat.app.settings.listeners import ListenerAddress, parse_listeners
from qanat.model.errors import InvalidSettingError

INTER_BROKER_OFFSET = 10_000
REPLICAS_MAX = 3
_PORT_MAX = 65_535
LISTENERS, ADVERTISED, ADVERTISED_PORT = "listeners", "advertised.listeners", "advertised.port"
METRICS_PORT = "metrics.port"
_INTERNAL_TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker's process."""

    node_id: int
    port: int
    inter_broker_port: int
    http_port: int | None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All brokers, their settings and arguments."""

    data_dir: str
    brokers: tuple[BrokerPlan, ...]
    settings: tuple[str, ...] = ()
    """`name=value`, for every broker."""
    arguments: tuple[str, ...] = ()
    """Further arguments of every broker's command line."""
    is_one_host: bool = False
    """Whether the brokers count as one host, as workers do: a second replica would add no safety."""

    def with_settings(self, *added: str) -> ClusterPlan:
        return replace(self, settings=(*self.settings, *added))

    def settings_of(self, broker: BrokerPlan) -> dict[str, str]:
        """The settings of a broker, besides its number and its data directory."""
        replicas = 1 if self.is_one_host else min(REPLICAS_MAX, len(self.brokers))
        given = dict(one.split("=", 1) for one in self.settings)
        settings = {
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(min(2, replicas)),
            **(dict.fromkeys(_INTERNAL_TOPICS, "1") if self.is_one_host else {}),
            **given,
            **self._listeners(broker, given),
            **({"http.port": str(broker.http_port)} if broker.http_port is not None else {}),
        }
        if "inter.broker.listener.name" not in given:
            settings["inter.broker.port"] = str(broker.inter_broker_port)
        return settings

    def command(self, broker: BrokerPlan) -> list[str]:
        """The command line of a broker."""
        settings = self.settings_of(broker)
        port = () if LISTENERS in settings else ("--port", str(broker.port))
        return [
            *(sys.executable, "-m", "qanat.app", "start"),
            *(*port, "--node-id", str(broker.node_id), "--data-dir", self.data_dir),
            *self.arguments,
            *(word for name, value in settings.items() for word in ("-X", f"{name}={value}")),
        ]

    def ports(self, broker: BrokerPlan) -> list[int]:
        """Every port of a broker, the highest first: an impossible one is reported before one that is in use."""
        given = dict(one.split("=", 1) for one in self.settings)
        named = {"inter.broker.listener.name"} & given.keys()
        wanted = [] if named else [broker.inter_broker_port]
        own = self._listeners(broker, given)
        wanted += [one.port for one in _parsed(own, LISTENERS)] or [broker.port]
        wanted += [int(own[METRICS_PORT])] if METRICS_PORT in own else []
        return sorted([*wanted, *([] if broker.http_port is None else [broker.http_port])], reverse=True)

    def _listeners(self, broker: BrokerPlan, given: dict[str, str]) -> dict[str, str]:
        """`listeners`, `advertised.listeners`, `advertised.port` and `metrics.port` of one broker."""
        by = broker.node_id - self.brokers[0].node_id
        shifted = {
            name: ",".join(_text(one, by) for one in _parsed(given, name))
            for name in (LISTENERS, ADVERTISED)
            if name in given
        }
        for name in (ADVERTISED_PORT, METRICS_PORT):
            port = given.get(name, "")
            if port.isdigit() and int(port):  # 0 is any free port.
                shifted[name] = str(int(port) + by)
        return shifted


def _parsed(settings: dict[str, str], name: str) -> list[ListenerAddress]:
    """The listeners of a setting; the brokers check their protocols."""
    if name not in settings:
        return []
    try:
        return parse_listeners(settings[name])
    except ValueError as fault:
        raise InvalidSettingError(f"{name} = {settings[name]!r}: {fault}") from None


def _text(one: ListenerAddress, by: int) -> str:
    host = f"[{one.host}]" if ":" in one.host else one.host
    return f"{one.name}://{host}:{one.port + by if one.port else 0}"


def plan_cluster(
    data_dir: str, brokers: int, port: int, http_port: int | None, settings: Sequence[str] = (), first_id: int = 0
) -> ClusterPlan:
    """Brokers with consecutive numbers on consecutive ports."""
    given = dict(one.split("=", 1) for one in settings)
    listeners = _parsed(given, LISTENERS)
    between = given.get("inter.broker.listener.name", "").upper()
    clients = [one for one in listeners if one.name != between]
    port = clients[0].port if clients else port
    inter_broker_port = next((one.port for one in listeners if one.name == between), port + INTER_BROKER_OFFSET)
    plan = ClusterPlan(
        data_dir,
        tuple(
            BrokerPlan(
                first_id + number,
                port + number,
                inter_broker_port + number,
                None if http_port is None else http_port + number,
            )
            for number in range(brokers)
        ),
        tuple(settings),
    )
    for broker in plan.brokers:
        for one in plan.ports(broker):
            require_port(f"broker {broker.node_id}", one, "--port or --http-port")
    _refuse_shared_ports(plan)
    return plan


def require_port(who: str, port: int, flags: str) -> None:
    """Refuse a number that is no port."""
    if not 0 < port <= _PORT_MAX:
        raise InvalidSettingError(
            f"{who} cannot have port {port}: ports go from 1 to {_PORT_MAX}, and brokers listen to each other "
            f"{INTER_BROKER_OFFSET} above --port; choose another {flags}"
        )


def _refuse_shared_ports(plan: ClusterPlan) -> None:
    owners: dict[int, int] = {}
    for broker in plan.brokers:
        for port in plan.ports(broker):
            if owners.setdefault(port, broker.node_id) != broker.node_id:
                raise InvalidSettingError(
                    f"brokers {owners[port]} and {broker.node_id} would both have port {port}: broker i has every "
                    f"listener on its port + i; choose ports that are at least {len(plan.brokers)} apart"
                )
