"""How a client makes itself safe and known: its settings, under the names of Kafka's and librdkafka's clients. Pure.

`security_of` reads them; nothing is opened before a connection is. Whatever is secret is left out of every `repr`
and of every message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from qanat.connection.sasl import MECHANISMS
from qanat.model.errors import InvalidSettingError

MEANINGS: Mapping[str, str] = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    "sasl.mechanisms": "the same, in librdkafka's spelling",
    "sasl.username": "who we are",
    "sasl.password": "the password",
    "sasl.jaas.config": 'Java\'s way to say both: ...LoginModule required username="..." password="...";',
    "ssl.ca.location": "PEM file with the certificates that are trusted; the machine's own where not given",
    "ssl.ca.pem": "the same as text",
    "ssl.truststore.location": "Java's name for ssl.ca.location; must be PEM",
    "ssl.truststore.certificates": "Java's name for ssl.ca.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.password": "accepted; PEM needs none",
    "ssl.certificate.location": "PEM file with our certificate and its chain",
    "ssl.certificate.pem": "the same as text",
    "ssl.key.location": "PEM file with our private key",
    "ssl.key.pem": "the same as text",
    "ssl.key.password": "password of the private key",
    "ssl.keystore.location": "PEM file with our private key and certificate together",
    "ssl.keystore.certificate.chain": "Java's name for ssl.certificate.pem",
    "ssl.keystore.key": "Java's name for ssl.key.pem",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.password": "accepted; PEM needs none",
    "ssl.endpoint.identification.algorithm": "https, or empty (or none) to accept a certificate of another host",
    "ssl.protocol": "accepted; TLS 1.2 and 1.3 are spoken",
    "ssl.enabled.protocols": "accepted; TLS 1.2 and 1.3 are spoken",
    "enable.ssl.certificate.verification": "false trusts everybody: encrypted, but to whom?",
}
"""Every setting, and what it says."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are, and how it is proved."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: in a file, or as text."""

    setting: str
    """Where it was said, for messages."""
    location: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom we trust, and what we show."""

    trusted: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_host: bool = True
    checks_certificate: bool = True


@dataclass(frozen=True, slots=True)
class Security:
    """What a connection needs besides an address."""

    credentials: Credentials | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        wire = "PLAINTEXT" if self.tls is None else "SSL"
        return wire if self.credentials is None else f"SASL_{wire}"


UNPROTECTED = Security()


def security_of(settings: Mapping[str, str], prefix: str = "") -> Security:
    """What settings say, others than those in `MEANINGS` left aside; `prefix` stands before names in messages.

    Raises `InvalidSettingError`.
    """
    said = _Said({name: value for name, value in settings.items() if name in MEANINGS}, prefix)
    protocol = (said.text("security.protocol") or "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise InvalidSettingError(
            f"{prefix}security.protocol is {protocol!r}, but must be one of {', '.join(_PROTOCOLS)}"
        )
    if said.text("security.protocol") is None:
        _refuse_unused(said)
    has_sasl, has_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
    return Security(_credentials(said) if has_sasl else None, _tls(said) if has_tls else None)


class _Said:
    """Settings as they were given."""

    def __init__(self, settings: Mapping[str, str], prefix: str) -> None:
        self._settings = settings
        self.prefix = prefix

    def text(self, name: str) -> str | None:
        return self._settings.get(name)

    def names(self) -> list[str]:
        return list(self._settings)

    def first(self, *names: str) -> str | None:
        """The one of several names that was given; two are one too many."""
        given = [name for name in names if self._settings.get(name)]
        if len(given) > 1:
            raise InvalidSettingError(
                f"{self.prefix}{given[0]} and {self.prefix}{given[1]} say the same: give one of them"
            )
        return given[0] if given else None


def _refuse_unused(said: _Said) -> None:
    """Who gives a password and no protocol forgot the protocol; the connection would be open to everybody."""
    for name in said.names():
        needed = " or ".join(one for one in _PROTOCOLS if name.partition(".")[0].upper() in one)
        if needed and said.text(name):
            raise InvalidSettingError(
                f"{said.prefix}{name} has no effect without {said.prefix}security.protocol: set it to {needed}"
            )


def _credentials(said: _Said) -> Credentials:
    named = said.first("sasl.mechanism", "sasl.mechanisms")
    mechanism = (said.text(named) or "").strip().upper() if named else ""
    if mechanism not in MECHANISMS:
        told = f"is {mechanism!r}, but must be" if mechanism else "is missing:"
        raise InvalidSettingError(f"{said.prefix}{named or 'sasl.mechanism'} {told} one of {', '.join(MECHANISMS)}")
    username, password = said.text("sasl.username"), said.text("sasl.password")
    jaas = said.text("sasl.jaas.config")
    if jaas is not None:
        username, password = _from_jaas(jaas, said.prefix)
    if not username or password is None:
        missing = "sasl.username" if not username else "sasl.password"
        raise InvalidSettingError(f"{said.prefix}{missing} is missing: {mechanism} needs a name and a password")
    return Credentials(mechanism, username, password)


_JAAS_PAIR = r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')"""


def _from_jaas(text: str, prefix: str) -> tuple[str | None, str | None]:
    """Name and password in Java's form; the text itself is never shown."""
    found = {name: re.sub(r"\\(.)", r"\1", double or single) for name, double, single in re.findall(_JAAS_PAIR, text)}
    if "LoginModule" not in text or not {"username", "password"} <= found.keys():
        raise InvalidSettingError(
            f"{prefix}sasl.jaas.config cannot be read; it should look like "
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'
        )
    return found["username"], found["password"]


def _tls(said: _Said) -> Tls:
    for kind in ("ssl.truststore.type", "ssl.keystore.type"):
        given = (said.text(kind) or "PEM").strip().upper()
        if given != "PEM":
            raise InvalidSettingError(f"{said.prefix}{kind} is {given}, but only PEM is read here: {_CONVERT}")
    keystore = said.first("ssl.keystore.location")
    certificate = _pem(said, "ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.certificate.chain")
    key = _pem(said, "ssl.key.location", "ssl.key.pem", "ssl.keystore.key")
    if keystore is not None:
        certificate = certificate or Pem(said.prefix + keystore, said.text(keystore))
        key = key or Pem(said.prefix + keystore, said.text(keystore))
    if key is not None and certificate is None:
        raise InvalidSettingError(
            f"{key.setting} needs the certificate that it belongs to: {said.prefix}ssl.certificate.location"
        )
    return Tls(
        trusted=_pem(said, "ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location", "ssl.truststore.certificates"),
        certificate=certificate,
        key=key,
        key_password=said.text("ssl.key.password"),
        checks_host=_is_on(said, "ssl.endpoint.identification.algorithm", "https", ("", "none")),
        checks_certificate=_is_on(said, "enable.ssl.certificate.verification", "true", ("false",)),
    )


_CONVERT = (
    "openssl pkcs12 -in STORE.p12 -out STORE.pem turns a PKCS#12 store into it, "
    "keytool -importkeystore -deststoretype PKCS12 makes one of a JKS"
)


def _pem(said: _Said, *names: str) -> Pem | None:
    name = said.first(*names)
    if name is None:
        return None
    value = said.text(name)
    return Pem(said.prefix + name, location=value) if name.endswith("location") else Pem(said.prefix + name, text=value)


def _is_on(said: _Said, name: str, on: Literal["https", "true"], off: tuple[str, ...]) -> bool:
    given = said.text(name)
    given = on if given is None else given.strip().lower()
    if given != on and given not in off:
        raise InvalidSettingError(f"{said.prefix}{name} is {given!r}, but must be {on} or {off[-1]}")
    return given == on
