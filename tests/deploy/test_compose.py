"""The compose file: every variable is a setting, addresses fit the ports, and nothing is published beyond loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.image import entrypoint

from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import load

FILE = Path(__file__).resolve().parents[2] / "deploy" / "compose" / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
BROKERS = ["broker-1", "broker-2", "broker-3"]


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_of_the_file_would_start(name: str) -> None:
    service = SERVICES[name]
    given = {key: str(value) for key, value in service["environment"].items()}
    given |= entrypoint.defaults(given)
    assert given.pop("SECURITY") == "open"
    settings = load([], None, given).settings
    plan = plan_listeners(settings)
    assert [one.name for one in plan.clients] == ["HOST", "NETWORK"]
    assert plan.inter_broker is not None
    assert (plan.inter_broker.advertised_host, service["hostname"]) == (name, name)
    host = plan.clients[0]
    assert (host.advertised_host, host.advertised_port) == ("localhost", host.port)
    assert f"127.0.0.1:{host.port}:{host.port}" in service["ports"]
    assert (settings.broker.default_replication_factor, settings.metadata.metadata_store) == (3, "etcd")


def test_open_brokers_are_reached_from_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports)) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "127.0.0.1:8080:8080" in SERVICES["broker-1"]["ports"]


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_has_no_rights_that_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["healthcheck"]["test"][-1] == "/opt/image/healthcheck.py"
