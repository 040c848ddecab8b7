"""Authorities and certificates of tests, with any subject."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Shown:
    """What one end shows: its key and chain in one file, and in two."""

    both: Path
    chain: Path
    key: Path


class Authority:
    """An authority of a test's own; `trusted` is its certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._authority = trustme.CA()
        self.trusted = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(self.trusted)
        self._issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        self._issuer_key = load_pem_private_key(self._authority.private_key_pem.bytes(), None)

    def server(self, name: str = "server", *hosts: str) -> Shown:
        """A server's certificate, for 127.0.0.1 and localhost unless the test says otherwise."""
        made = self._authority.issue_cert(*(hosts or ("127.0.0.1", "localhost")))
        chain = b"".join(one.bytes() for one in made.cert_chain_pems)
        return self._written(name, _pkcs8(load_pem_private_key(made.private_key_pem.bytes(), None)), chain)

    def client(self, name: str, subject: str, *, lifetime: timedelta = timedelta(days=1)) -> Shown:
        """A certificate with this subject (RFC 4514), for clients and for brokers among themselves."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.now(UTC) + lifetime
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name.from_rfc4514_string(subject))
            .issuer_name(self._issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - timedelta(days=30))
            .not_valid_after(end)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), _LOOPBACK]), critical=False)
            .sign(self._issuer_key, hashes.SHA256())  # type: ignore[arg-type]
        )
        return self._written(name, _pkcs8(key), made.public_bytes(Encoding.PEM))

    def _written(self, name: str, key: bytes, chain: bytes) -> Shown:
        shown = Shown(*(self._folder / f"{self._name}-{name}{end}.pem" for end in ("", "-chain", "-key")))
        shown.chain.write_bytes(chain)
        for path, content in ((shown.both, key + chain), (shown.key, key)):
            path.touch(0o600)
            path.write_bytes(content)
        return shown


def common_name(name: str) -> str:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]).rfc4514_string()


def client_context(authority: Authority, shown: Shown | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.trusted)
    if shown is not None:
        context.load_cert_chain(shown.both)
    return context


def _pkcs8(key: object) -> bytes:
    """The only form of a key that Java reads."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined, no-any-return]


def _loopback() -> x509.IPAddress:
    from ipaddress import ip_address

    return x509.IPAddress(ip_address("127.0.0.1"))


_LOOPBACK = _loopback()
