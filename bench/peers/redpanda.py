"""Redpanda, where it is installed: Debian has no package."""

from __future__ import annotations

from pathlib import Path

from tools.servers import FIRST_REQUEST, free_port

from bench.peers.launching import Launch

INSTALL = "put the folder of a `redpanda` program on PATH (its own package repository has it, Debian's has not)"
_CONFIGURATION = """redpanda:
  data_directory: {data}
  node_id: 0
  seed_servers: []
  rpc_server: {{address: 127.0.0.1, port: {rpc_port}}}
  kafka_api: [{{address: 127.0.0.1, port: {port}}}]
  admin: [{{address: 127.0.0.1, port: {admin_port}}}]
  developer_mode: true
"""


def prepare(is_durable: bool, program: str, folder: Path, port: int) -> Launch:
    (folder / "data").mkdir()
    written = folder / "redpanda.yaml"
    ports = {"port": port, "rpc_port": free_port(), "admin_port": free_port()}
    written.write_text(_CONFIGURATION.format(data=folder / "data", **ports))
    flags = ["--redpanda-cfg", str(written), "--smp", "1", "--memory", "1G", "--overprovisioned"]
    return Launch([program, *flags], FIRST_REQUEST)


def settings(is_durable: bool) -> str:
    return "one core, 1 GiB, overprovisioned, developer mode; syncs before it acknowledges acks=all, its default"


def why_not(is_durable: bool, version: str) -> str:
    return (
        "" if is_durable else "it syncs before it acknowledges unless write caching is turned on for the whole cluster"
    )
