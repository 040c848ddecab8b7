"""`qanat secure init`: a protected broker, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.secure.private_files import write_private
from qanat.app.secure.secure_setup import SecureFiles, add_administrator, broker_settings, write_files

_PORT_MAX = 65_535


def init(
    *,
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    host: Annotated[list[str] | None, Parameter(name="--host", negative="")] = None,
    port: int = 9092,
    renew: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Prepare a broker with TLS, SCRAM and ACLs: authority, certificate, administrator, settings.

        qanat secure init
        qanat secure init --data-dir /var/lib/qanat --host queue-1.example
        qanat secure init --renew                      (another certificate; a running broker takes it)

    Files are written to the folder security of the data directory, readable by their owner only. What is there stays: a
    second run changes no password and no key.

    Parameters
    ----------
    data_dir:
        Data directory of the broker; need not exist yet.
    host:
        Name or address by which clients reach the broker, as often as needed; this machine only where it is left out.
    port:
        Port of Kafka clients.
    renew:
        Make another certificate for the broker, from the same authority.
    """
    if not data_dir:
        raise WrongArgumentError("--data-dir needs a path")
    if not 0 < port <= _PORT_MAX:
        raise WrongArgumentError(f"--port {port}: ports go from 1 to {_PORT_MAX}")
    files = SecureFiles.of(data_dir)
    shown = (host or ["127.0.0.1"])[0]
    write_files(files, host or [], f"{shown}:{port}", renews=renew)
    absolute = str(Path(data_dir).absolute())
    add_administrator(files, {"data.dir": absolute})
    settings = {"data.dir": absolute, **addresses(host or [], port), **broker_settings(files)}
    config = files.folder / "broker.yaml"
    if not config.exists():
        write_private(config, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).encode())
    print(next_steps(files, f"qanat start --config {config}"))
    return 0


def addresses(hosts: list[str], port: int) -> dict[str, str]:
    """Where the broker listens: beyond this machine only with a host that others know."""
    if not hosts:
        return {"host.name": "127.0.0.1", "port": str(port)}
    return {"host.name": "0.0.0.0", "port": str(port), "advertised.host.name": hosts[0], "advertised.port": str(port)}


def next_steps(files: SecureFiles, start: str = "") -> str:
    """What to do next, as commands."""
    steps = [("start", start)] if start else []
    steps += [
        ("look", f"qanat topic list --command-config {files.client}"),
        ("add a user", f"qanat user add alice --command-config {files.client}"),
        (
            "allow it",
            f"qanat acl add --principal alice --operation read,write --topic orders --command-config {files.client}",
        ),
        ("check", f"qanat doctor --data-dir {files.folder.parent}"),
    ]
    lines = [f"  {name:<11}{text}" for name, text in steps]
    return "\n".join(
        [
            "Security: TLS, SCRAM and ACLs",
            "",
            f"  admin      {files.client}",
            f"  authority  {files.authority}  (give it to clients)",
            *lines,
        ]
    )
