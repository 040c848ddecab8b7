"""Under systemd a broker says when it serves, that it lives, and when it stops; a real socket listens here."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.processes import running_broker

from qanat.app.node.service_manager import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """What systemd listens on."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        listening.settimeout(60)
        yield listening, path


def _fields(listening: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in listening.recv(4096).decode().splitlines())


def test_a_broker_says_that_it_serves_lives_and_stops(tmp_path: Path, manager: tuple[socket.socket, str]) -> None:
    listening, path = manager
    variables = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "50000"}
    with running_broker(tmp_path, "--port", "0", environment=variables) as broker:
        seen = [_fields(listening)]
        while "READY" not in seen[-1]:
            seen.append(_fields(listening))
        assert seen[-1]["STATUS"] == f"serving on {broker.address}"
        assert _fields(listening) == {"WATCHDOG": "1"}
        assert broker.stop() == 0
        while "STOPPING" not in (said := _fields(listening)):
            assert said == {"WATCHDOG": "1"}


def test_child_processes_do_not_inherit_the_socket(manager: tuple[socket.socket, str]) -> None:
    listening, path = manager
    variables = {"NOTIFY_SOCKET": path}
    ServiceManager(variables).ready("2 brokers")
    assert _fields(listening) == {"READY": "1", "STATUS": "2 brokers"}
    assert variables == {}, "brokers that are started from here do not speak"


def test_an_abstract_socket_is_understood() -> None:
    name = f"qanat-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        listening.settimeout(60)
        assert _fields(listening)["STOPPING"] == "1"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "1000000"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "0"},
    ],
)
def test_nobody_watches_this_process(variables: dict[str, str]) -> None:
    assert ServiceManager(variables).watchdog_s is None


def test_a_sign_of_life_comes_well_before_it_is_missed() -> None:
    variables = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    found = ServiceManager(variables).watchdog_s
    assert found is not None
    assert 1 <= found <= 15


def test_a_service_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    one = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1"})

    async def serve() -> None:
        async with one.watched():
            await asyncio.sleep(0)
            one.ready("serving")

    asyncio.run(serve())
