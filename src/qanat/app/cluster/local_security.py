"""The security of a local cluster: secrets that its brokers share, and how its supervisor asks them.

Where brokers authenticate with each other and no credentials are given, the supervisor draws some, once, into files of
the data directory that only their owner reads:

    inter-broker.credentials   the name and password that brokers show to each other
    credentials                the user admin, for PLAIN without `sasl.plain.credentials.file`
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qanat.app.cluster.cluster_plan import BrokerPlan, ClusterPlan
from qanat.app.settings.listener_plan import ListenerPlan, plan_listeners
from qanat.app.settings.loading import flag, load
from qanat.connection.security import UNPROTECTED, Security

if TYPE_CHECKING:
    from qanat.connection.cluster import Address

BROKER_FILE, USER_FILE = "inter-broker.credentials", "credentials"
_BROKER, _ADMIN = "qanat-broker", "admin"


def with_secrets(plan: ClusterPlan) -> ClusterPlan:
    """The plan with the files that its brokers need and no setting names."""
    listeners = listeners_of(plan, plan.brokers[0])
    between = listeners.inter_broker
    if between is not None and between.has_sasl and between.security.inter_broker_credentials_file is None:
        plan = plan.with_settings(f"inter.broker.credentials.file={_drawn(plan.data_dir, BROKER_FILE, _BROKER)}")
    for one in (*listeners.clients, *([listeners.http] if listeners.http else [])):
        is_plain = one.has_sasl and "PLAIN" in one.security.mechanisms
        if is_plain and one.security.sasl_plain_credentials_file is None:
            return plan.with_settings(f"sasl.plain.credentials.file={_drawn(plan.data_dir, USER_FILE, _ADMIN)}")
    return plan


def listeners_of(plan: ClusterPlan, broker: BrokerPlan) -> ListenerPlan:
    """The listeners of a broker, as it makes them itself."""
    settings = plan.settings_of(broker)
    values = [flag(name, value, f"-X {name}") for name, value in settings.items()]
    if "listeners" not in settings:
        values.append(flag("port", broker.port, "--port"))
    given = dict(zip(plan.arguments[::2], plan.arguments[1::2], strict=True))
    if "--host" in given:
        values.append(flag("host.name", given["--host"], "--host"))
    config = given.get("--config")
    return plan_listeners(load(values, None if config is None else Path(config), os.environ).settings)


def asked_as_broker(plan: ClusterPlan, broker: BrokerPlan) -> tuple[Address, Security]:
    """Where and how the supervisor asks a broker: as a client of an open listener, else as another broker."""
    listeners = listeners_of(plan, broker)
    between = listeners.inter_broker
    if listeners.clients[0].protocol == "PLAINTEXT" or between is None:
        return ("127.0.0.1", broker.port), UNPROTECTED
    address = ("127.0.0.1" if between.host in ("0.0.0.0", "") else between.host, broker.inter_broker_port)
    if between.protocol == "PLAINTEXT":
        return address, UNPROTECTED
    from qanat.app.node.broker_identity import BrokerIdentity
    from qanat.app.node.file_watch import FileWatch

    # The supervisor knows the port, but not by which of its names the certificate calls this host.
    between = replace(between, tls=replace(between.tls, ssl_endpoint_identification_algorithm="none"))
    return address, BrokerIdentity(between, FileWatch()).security(between.protocol)


def _drawn(data_dir: str, name: str, user: str) -> str:
    """A file with a name and a password; the one of an earlier start where there is one."""
    path = Path(data_dir).absolute() / name
    if not path.exists():
        content = f"{user}:{secrets.token_urlsafe(24)}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
    return str(path)
