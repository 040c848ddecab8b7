"""RabbitMQ within one folder: a node with a name, ports and a cookie of its own.

Debian's `rabbitmq-server` is a wrapper that takes another user and the system's log folders; what it wraps is started
instead. The node's directory service (epmd) would outlive it as a daemon, so it gets one that ends with it.
"""

from __future__ import annotations

import struct
from pathlib import Path

from tools.servers import free_port

from bench.peers.launching import Launch

WRAPPED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# PeerProperties of the stream protocol, version 1, correlation id 1, no properties: the first request of every client.
_FIRST_REQUEST = struct.pack(">IHHII", 12, 17, 1, 1, 0)
_CONFIGURATION = """listeners.tcp.1 = 127.0.0.1:{amqp_port}
stream.listeners.tcp.1 = 127.0.0.1:{port}
stream.advertised_host = 127.0.0.1
stream.advertised_port = {port}
"""


def version(program: str) -> str:
    """By the name of its folder: `rabbitmq-server --version` would start a server."""
    folders = sorted(WRAPPED.parents[1].glob("lib/rabbitmq_server-*"))
    return folders[-1].name.rpartition("-")[2] if folders else ""


def prepare(is_durable: bool, program: str, folder: Path, port: int) -> Launch:
    (folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(amqp_port=free_port(), port=port))
    (folder / "enabled_plugins").write_text("[rabbitmq_stream].\n")
    names_port = str(free_port())
    environment = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"bench-{port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-environment.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "ERL_EPMD_PORT": names_port,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # With input allowed the script becomes the node instead of waiting for it; then nothing is to be read.
        "RABBITMQ_ALLOW_INPUT": "1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
    }
    command = str(WRAPPED if WRAPPED.exists() else program)
    names = ["epmd", "-port", names_port, "-address", "127.0.0.1"]
    return Launch([command], _FIRST_REQUEST, environment=environment, companion=names)


def settings(is_durable: bool) -> str:
    return "plugin rabbitmq_stream, one replica, otherwise its defaults"


def why_not(is_durable: bool, version: str) -> str:
    return "its streams are written without fsync and have no setting for it" if is_durable else ""
