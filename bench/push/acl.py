"""How soon a removed permission ends subscriptions: one broker changes the rules, another one serves the subscribers.

Both are processes with a metadata store in common. Time counts from when the request to change the rules leaves until
the DISCONNECT of a subscriber has arrived.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import statistics
import sys
import time
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from tools.servers import Server, free_port

from bench.client.bars import Bar
from bench.processes import open_files_allowed
from bench.push.crowd import connected
from qanat import __version__

CONNECTIONS = 1_000
LIMIT_S = 1.0
_SUBSCRIBE, _DISCONNECT = 3, 7
_TOPIC = "guarded"
_SETTINGS = {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": "true", "http.port": "0"}
_WAIT_S = 30.0
_SETTLE_S = 1.0


def _server(data: Path, node_id: int) -> Server:
    """A broker of two, in which everything is allowed that no rule is about."""

    def command(folder: Path, port: int) -> list[str]:
        flags = ["--port", str(port), "--node-id", str(node_id), "--data-dir", str(data), "--log-level", "warning"]
        settings = {**_SETTINGS, "inter.broker.port": str(free_port())}
        flags += [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        return [str(Path(sys.executable).with_name("qanat")), "start", *flags]

    return Server("Qanat", __version__, command)


def bars(folder: Path, rounds: int) -> list[Bar]:
    open_files_allowed()
    found: list[float] = []
    data = folder / "acl-data"
    with (
        _server(data, 1).running(folder / "acl-1") as changing,
        _server(data, 2).running(folder / "acl-2") as serving,
    ):
        admin = AdminClient({"bootstrap.servers": changing.address})
        (made,) = admin.create_topics([NewTopic(_TOPIC, 2, 1)]).values()
        made.result(_WAIT_S)
        for number in range(rounds):
            took_s = _round(admin, serving.address)
            spread = f"p50 {statistics.median(took_s) * 1000:.0f} ms, p100 {max(took_s) * 1000:.0f} ms"
            print(f"  round {number + 1}: {len(took_s):,} subscriptions end, {spread}", flush=True)
            found += took_s
    print(f"  all: p50 {statistics.median(found) * 1000:.0f} ms, p100 {max(found) * 1000:.0f} ms", flush=True)
    return [Bar(f"a removed permission ends {CONNECTIONS:,} subscriptions", max(found), LIMIT_S, "at most", "s")]


def _round(admin: AdminClient, address: str) -> list[float]:
    """The seconds of each subscriber."""
    place = (ResourceType.TOPIC, _TOPIC, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.READ)
    with contextlib.ExitStack() as opened:
        clients = []
        for _ in range(CONNECTIONS):
            client = connected(address, _SUBSCRIBE, {"topics": [_TOPIC], "start": "latest"})
            clients.append(opened.enter_context(client))
        time.sleep(_SETTLE_S)
        began = time.perf_counter()
        changed = admin.create_acls([AclBinding(*place, AclPermissionType.DENY)])
        ends = _ends(clients)
        for one in changed.values():
            one.result(_WAIT_S)
    for gone in admin.delete_acls([AclBindingFilter(*place, AclPermissionType.DENY)]).values():
        gone.result(_WAIT_S)
    time.sleep(_SETTLE_S)
    return [end - began for end in ends]


def _ends(clients: list[socket.socket]) -> list[float]:
    """When each client has its DISCONNECT."""
    found: list[float] = []
    by_number = {client.fileno(): client for client in clients}
    with selectors.DefaultSelector() as ready:
        for client in clients:
            ready.register(client, selectors.EVENT_READ)
        until = time.perf_counter() + _WAIT_S
        while len(found) < len(clients):
            if time.perf_counter() >= until:
                raise SystemExit(f"bench.push: {len(clients) - len(found)} subscriptions did not end")
            for key, _ in ready.select(1.0):
                client = by_number[key.fd]
                if client.recv(4096)[:1] in (bytes([_DISCONNECT]), b""):
                    found.append(time.perf_counter())
                    ready.unregister(client)
    return found
