"""One secured broker for all clients, and one process of each client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.logins.login import LoginClient
from tests.clients.logins.matrix import CLIENTS
from tests.clients.logins.secured_broker import Secured, secured
from tests.fetching import Unavailable

# The tools are part of the checkout, not of the package.
ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

ClientOf = Callable[[str], LoginClient]


@pytest.fixture(scope="session")
def broker_with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("logins")) as running:
        yield running


@pytest.fixture(scope="session")
def client_of(broker_with_logins: Secured) -> Iterator[ClientOf]:
    """Starts each client once; one that cannot be had is skipped with its reason."""
    started: dict[str, LoginClient | Unavailable] = {}

    def client_of(name: str) -> LoginClient:
        if name not in started:
            try:
                started[name] = CLIENTS[name](broker_with_logins)
            except Unavailable as reason:
                started[name] = reason
        found = started[name]
        if isinstance(found, Unavailable):
            pytest.skip(f"{name} is not tried: {found}")
        return found

    yield client_of
    for client in started.values():
        if not isinstance(client, Unavailable):
            client.close()
