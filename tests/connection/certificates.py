"""An authority of our own, and a proxy that speaks TLS in front of a broker."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: who is trusted, and what both ends show."""

    authority: Path
    server: Path
    """Key and chain together."""
    client: Path
    client_chain: Path
    client_key: Path


def certificates(folder: Path, host: str = "127.0.0.1") -> Certificates:
    """A server's certificate for a host and a client's, both signed by an authority of the test's own."""
    authority = trustme.CA()
    server, client = authority.issue_cert(host), authority.issue_cert("client@example.org")
    made = Certificates(*(folder / f"{name}.pem" for name in ("authority", "server", "client", "chain", "key")))
    authority.cert_pem.write_to_path(made.authority)
    made.server.write_bytes(_key(server) + _chain(server))
    made.server.chmod(0o600)
    made.client.write_bytes(_key(client) + _chain(client))
    made.client_chain.write_bytes(_chain(client))
    made.client_key.write_bytes(_key(client))
    return made


def _chain(certificate: trustme.LeafCert) -> bytes:
    return b"".join(one.bytes() for one in certificate.cert_chain_pems)


def _key(certificate: trustme.LeafCert) -> bytes:
    """The key in PKCS#8, which is the only form that Java reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@contextlib.asynccontextmanager
async def tls_in_front(target_port: int, shown: Certificates, *, wants_certificate: bool = False) -> AsyncIterator[int]:
    """The port of a proxy that ends TLS and hands everything on to a port of this machine."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown.server)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(shown.authority)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", target_port)
        await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.05)  # The pumps see both ends go.
