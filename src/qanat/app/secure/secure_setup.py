"""Everything that a protected broker needs: an authority, its certificate, credentials, an administrator, settings.

    DATA/security/authority.pem               whom clients trust; give it to them
    DATA/security/authority.key               signs certificates; can be kept elsewhere
    DATA/security/broker.pem                  the brokers' key and certificate
    DATA/security/inter-broker.credentials    by which brokers know each other
    DATA/security/client.properties           the administrator, for the command line and for Kafka's tools

Rule 1: all of them, and the data directory, are readable by their owner only.
Rule 2: what is there stays: a second run changes no password and no key, so it can be run at every start.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.client_settings import settings_of_file
from qanat.app.node.metadata_store import open_store
from qanat.app.secure.private_files import make_private_folder, write_private
from qanat.app.settings.loading import flag, load
from qanat.app.users.user_directory import BOTH, StoredUsers, set_password

ADMIN, BROKER = "admin", "qanat-broker"
MECHANISM = "SCRAM-SHA-512"
_PASSWORD_BYTES = 24
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class SecureFiles(NamedTuple):
    """The files of a protected data directory."""

    folder: Path
    authority: Path
    authority_key: Path
    broker: Path
    credentials: Path
    client: Path

    @classmethod
    def of(cls, data_dir: str) -> SecureFiles:
        folder = Path(data_dir).absolute() / "security"
        names = ("authority.pem", "authority.key", "broker.pem", "inter-broker.credentials", "client.properties")
        return cls(folder, *(folder / name for name in names))


def write_files(files: SecureFiles, hosts: Sequence[str], bootstrap: str, *, renews: bool = False) -> None:
    """Write the files that are missing, and with `renews` another certificate of the brokers."""
    make_private_folder(files.folder.parent)  # The metadata store is in it, with the verifiers of passwords.
    make_private_folder(files.folder)
    if renews or not files.broker.exists():
        _write_certificate(files, hosts)
    if not files.credentials.exists():
        write_private(files.credentials, f"{BROKER}:{secrets.token_urlsafe(_PASSWORD_BYTES)}\n".encode())
    password = admin_password(files) if files.client.exists() else secrets.token_urlsafe(_PASSWORD_BYTES)
    write_private(files.client, _client_properties(files, bootstrap, password).encode())


def admin_password(files: SecureFiles) -> str:
    """The administrator's password, from the properties of clients."""
    found = settings_of_file(str(files.client)).values.get("sasl.password")
    if not found:
        raise WrongArgumentError(f"{files.client} has no sasl.password: remove the file to draw another one")
    return found


def broker_settings(files: SecureFiles) -> dict[str, str]:
    """The settings of every broker, besides its addresses."""
    return {
        "listener.security.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(reversed(BOTH)),
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "inter.broker.credentials.file": str(files.credentials),
        "ssl.keystore.location": str(files.broker),
        "ssl.truststore.location": str(files.authority),
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
    }


def add_administrator(files: SecureFiles, settings: Mapping[str, str]) -> None:
    """Add the administrator to the metadata store of these settings, where there is none; no broker need run."""
    asyncio.run(_add_administrator(admin_password(files), settings))


async def _add_administrator(password: str, settings: Mapping[str, str]) -> None:
    values = [flag(name, value, f"-X {name}") for name, value in settings.items()]
    store = await open_store(load(values, None, os.environ).settings)
    try:
        users = StoredUsers(store)
        there = await users.iterations()
        for mechanism in BOTH:
            if (ADMIN, mechanism) not in there:
                await set_password(users, ADMIN, mechanism, password)
    finally:
        await store.close()


def _write_certificate(files: SecureFiles, hosts: Sequence[str]) -> None:
    try:
        from qanat.app.secure.authority import Authority
    except ImportError:
        raise WrongArgumentError("certificates need the package cryptography: pip install 'qanat[security]'") from None
    if files.authority_key.exists():
        authority = Authority(files.authority_key.read_bytes(), files.authority.read_bytes())
    elif files.authority.exists():
        raise WrongArgumentError(f"{files.authority_key} is missing: put it back to sign another certificate")
    else:
        authority = Authority.create(f"Qanat authority of {socket.gethostname()}")
        write_private(files.authority, authority.certificate_pem)
        write_private(files.authority_key, authority.key_pem)
    named = dict.fromkeys([*hosts, *_LOOPBACK, socket.gethostname()])
    write_private(files.broker, authority.issue(BROKER, list(named)))


def _client_properties(files: SecureFiles, bootstrap: str, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f"""\
bootstrap.servers={bootstrap}
security.protocol=SASL_SSL
sasl.mechanism={MECHANISM}
sasl.username={ADMIN}
sasl.password={password}
sasl.jaas.config={module} required username="{ADMIN}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={files.authority}
"""
