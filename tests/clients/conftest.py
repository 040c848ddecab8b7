"""One broker for all clients, each client connected once, and the results for the documentation's table."""

from __future__ import annotations

import gc
import json
import os
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients.capabilities import Client
from tests.fetching import Unavailable
from tests.servers.kafka.raw import RawClient

from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from _pytest.mark import MarkDecorator

# The tools are part of the checkout, not of the package.
ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

RESULTS = os.environ.get("QANAT_CLIENT_RESULTS")
"""Where `make clients` wants the results."""

CLIENTS = {
    "confluent-kafka": ("tests.clients.confluent", "Confluent"),
    "kafka-python": ("tests.clients.kafka_python", "KafkaPython"),
    "aiokafka": ("tests.clients.aio_kafka", "AioKafka"),
    "kcat": ("tests.clients.kcat", "Kcat"),
    "kafkajs": ("tests.clients.kafkajs", "KafkaJs"),
    "Java kafka-clients": ("tests.clients.java_client", "JavaClient"),
    "sarama": ("tests.clients.go_clients", "Sarama"),
    "franz-go": ("tests.clients.go_clients", "FranzGo"),
}

CANNOT = {
    ("kcat", "delete"): "has no such command",
    ("kcat", "transactions"): "has no such option",
}
"""What a client cannot do by its own design, and why."""

Connect = Callable[[str], Client]

_found: dict[str, dict[str, str]] = {}


def can(capability: str) -> MarkDecorator:
    """Run a test for every client that has the capability."""
    names = [name for name in CLIENTS if (name, capability) not in CANNOT]
    return pytest.mark.capability.with_args(capability, names)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "capability(name, clients): what a client is seen to do")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("capability")
    if mark is not None:
        metafunc.parametrize("client", mark.args[1], indirect=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def raw(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="session")
def connect(broker: EmbeddedBroker) -> Iterator[Connect]:
    """Connects to each client once; a client that cannot be had is skipped with its reason."""
    connected: dict[str, Any] = {}

    def connect_to(name: str) -> Client:
        if name not in connected:
            module, class_name = CLIENTS[name]
            try:
                connected[name] = getattr(import_module(module), class_name)(broker.bootstrap_servers)
            except Unavailable as reason:
                connected[name] = reason
        if isinstance(connected[name], Unavailable):
            _found.setdefault(name, {})["unavailable"] = str(connected[name])
            pytest.skip(f"{name} is not tried: {connected[name]}")
        found = _found.setdefault(name, {})
        found["version"] = connected[name].version
        found["codecs"] = ", ".join(connected[name].codecs)
        client: Client = connected[name]
        return client

    yield connect_to
    for client in connected.values():
        if not isinstance(client, Unavailable):
            client.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, connect: Connect) -> Iterator[Client]:
    yield connect(request.param)
    gc.collect()  # A socket that a client forgot is blamed on that client's test, where it is let pass.


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"{request.node.originalname[8:20].replace('_', '-')}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mark = item.get_closest_marker("capability")
    if mark is not None and not report.skipped and (report.when == "call" or report.failed):
        results = _found.setdefault(item.callspec.params["client"], {})  # type: ignore[attr-defined]
        if report.failed or results.get(mark.args[0]) != "no":
            results[mark.args[0]] = "no" if report.failed else "yes"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if RESULTS is not None:
        for (name, capability), reason in CANNOT.items():
            if "version" in _found.get(name, {}):
                _found[name][capability] = reason
        Path(RESULTS).write_text(json.dumps({name: _found[name] for name in CLIENTS if name in _found}, indent=1))
