"""Security settings of clients, under the names of Kafka's and librdkafka's clients. Pure.

`security_of` reads them; no file is opened before a connection is. Secrets are left out of every `repr`
and of every message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from qanat.connection.sasl import MECHANISMS, OAUTHBEARER
from qanat.model.errors import InvalidSettingError

if TYPE_CHECKING:
    import ssl

    from qanat.connection.oauth_tokens import TokenSource

MEANINGS: Mapping[str, str] = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "sasl.mechanisms": "the same, in librdkafka's spelling",
    "sasl.username": "who we are",
    "sasl.password": "the password",
    "sasl.jaas.config": 'Java\'s way to say both: ...LoginModule required username="..." password="...";',
    "sasl.oauthbearer.token": "the token, or ${file:...}, ${env:...} or ${command:...} that has it at every login",
    "sasl.oauthbearer.token.endpoint.url": "where tokens are given to a client with a secret (client credentials)",
    "sasl.oauthbearer.client.credentials.client.id": "who we are there",
    "sasl.oauthbearer.client.credentials.client.secret": "our secret there",
    "sasl.oauthbearer.client.id": "the same as client.credentials.client.id, in librdkafka's spelling",
    "sasl.oauthbearer.client.secret": "the same as client.credentials.client.secret, in librdkafka's spelling",
    "sasl.oauthbearer.scope": "the scope of these tokens",
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
    "enable.ssl.certificate.verification": "false trusts every certificate: encrypted, but to whom?",
}
"""Every setting, and its meaning."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Credentials(msgspec.Struct, frozen=True):
    """A name, a password, and the mechanism that proves them; or where tokens come from, which have the name."""

    mechanism: str
    username: str
    password: str
    tokens: TokenSource | None = None

    def __repr__(self) -> str:
        return f"Credentials(mechanism={self.mechanism!r}, username={self.username!r})"

    @property
    def who(self) -> str:
        """The client, for messages."""
        return "us" if self.tokens is not None else self.username


class Pem(msgspec.Struct, frozen=True):
    """Certificates or a key: in a file, or as text."""

    setting: str
    """The name of its setting, for messages."""
    location: str | None = None
    text: str | None = None

    def __repr__(self) -> str:
        return f"Pem(setting={self.setting!r}, location={self.location!r})"


class Tls(msgspec.Struct, frozen=True):
    """Trusted certificates, and our own."""

    trusted: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: str | None = None
    checks_host: bool = True
    checks_certificate: bool = True
    made: ssl.SSLContext | None = None
    """The context, where the caller makes it: it decides alone."""

    def __repr__(self) -> str:
        return f"Tls(trusted={self.trusted!r}, certificate={self.certificate!r}, checks_host={self.checks_host!r})"


class Security(msgspec.Struct, frozen=True):
    """The security of a connection."""

    credentials: Credentials | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        wire = "PLAINTEXT" if self.tls is None else "SSL"
        return wire if self.credentials is None else f"SASL_{wire}"


UNPROTECTED = Security()


def security_of(settings: Mapping[str, str], prefix: str = "") -> Security:
    """The security that settings describe, ignoring those not in `MEANINGS`; `prefix` stands before names in messages.

    Raises `InvalidSettingError`.
    """
    values = _ClientSettings({name: value for name, value in settings.items() if name in MEANINGS}, prefix)
    protocol = (values.text("security.protocol") or "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise InvalidSettingError(
            f"{prefix}security.protocol is {protocol!r}, but must be one of {', '.join(_PROTOCOLS)}"
        )
    if values.text("security.protocol") is None:
        _refuse_unused(values)
    has_sasl, has_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
    return Security(_credentials(values) if has_sasl else None, _tls(values) if has_tls else None)


class _ClientSettings:
    """The settings, by their names."""

    def __init__(self, settings: Mapping[str, str], prefix: str) -> None:
        self._settings = settings
        self.prefix = prefix

    def text(self, name: str) -> str | None:
        return self._settings.get(name)

    def names(self) -> list[str]:
        return list(self._settings)

    def first(self, *names: str) -> str | None:
        """The value of one of several synonyms; more than one is an error."""
        given = [name for name in names if self._settings.get(name)]
        if len(given) > 1:
            raise InvalidSettingError(
                f"{self.prefix}{given[0]} and {self.prefix}{given[1]} say the same: give one of them"
            )
        return given[0] if given else None


def _refuse_unused(values: _ClientSettings) -> None:
    """A password without a protocol means a forgotten protocol; the connection would be unprotected."""
    for name in values.names():
        needed = " or ".join(one for one in _PROTOCOLS if name.partition(".")[0].upper() in one)
        if needed and values.text(name):
            raise InvalidSettingError(
                f"{values.prefix}{name} has no effect without {values.prefix}security.protocol: set it to {needed}"
            )


def _credentials(values: _ClientSettings) -> Credentials:
    named = values.first("sasl.mechanism", "sasl.mechanisms")
    mechanism = (values.text(named) or "").strip().upper() if named else ""
    if mechanism not in MECHANISMS:
        reason = f"is {mechanism!r}, but must be" if mechanism else "is missing:"
        raise InvalidSettingError(f"{values.prefix}{named or 'sasl.mechanism'} {reason} one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism, "", "", _tokens(values))
    username, password = values.text("sasl.username"), values.text("sasl.password")
    jaas = values.text("sasl.jaas.config")
    if jaas is not None:
        username, password = _from_jaas(jaas, values.prefix)
    if not username or password is None:
        missing = "sasl.username" if not username else "sasl.password"
        raise InvalidSettingError(f"{values.prefix}{missing} is missing: {mechanism} needs a name and a password")
    return Credentials(mechanism, username, password)


def _tokens(values: _ClientSettings) -> TokenSource:
    from qanat.connection.http_fetch import check_url
    from qanat.connection.oauth_tokens import TokenEndpoint, TokenText

    own = "sasl.oauthbearer."
    source = values.first(f"{own}token", f"{own}token.endpoint.url")
    if source is None:
        raise InvalidSettingError(
            f"{values.prefix}{own}token is missing: OAUTHBEARER needs it, or {values.prefix}{own}token.endpoint.url"
        )
    setting, text = values.prefix + source, values.text(source) or ""
    if source == f"{own}token":
        return TokenText(setting, text)
    check_url(setting, text)
    found = []
    for name in ("client.id", "client.secret"):
        given = values.first(f"{own}client.credentials.{name}", f"{own}{name}")
        if given is None:
            raise InvalidSettingError(f"{setting} needs {values.prefix}{own}client.credentials.{name} as well")
        found.append(values.text(given) or "")
    return TokenEndpoint(setting, text, found[0], found[1], values.text(f"{own}scope") or "")


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


def _tls(values: _ClientSettings) -> Tls:
    for kind in ("ssl.truststore.type", "ssl.keystore.type"):
        given = (values.text(kind) or "PEM").strip().upper()
        if given != "PEM":
            raise InvalidSettingError(f"{values.prefix}{kind} is {given}, but only PEM is read here: {_CONVERT}")
    keystore = values.first("ssl.keystore.location")
    certificate = _pem(values, "ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.certificate.chain")
    key = _pem(values, "ssl.key.location", "ssl.key.pem", "ssl.keystore.key")
    if keystore is not None:
        certificate = certificate or Pem(values.prefix + keystore, values.text(keystore))
        key = key or Pem(values.prefix + keystore, values.text(keystore))
    if key is not None and certificate is None:
        raise InvalidSettingError(
            f"{key.setting} needs the certificate that it belongs to: {values.prefix}ssl.certificate.location"
        )
    return Tls(
        trusted=_pem(values, "ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location", "ssl.truststore.certificates"),
        certificate=certificate,
        key=key,
        key_password=values.text("ssl.key.password"),
        checks_host=_is_on(values, "ssl.endpoint.identification.algorithm", "https", ("", "none")),
        checks_certificate=_is_on(values, "enable.ssl.certificate.verification", "true", ("false",)),
    )


_CONVERT = (
    "openssl pkcs12 -in STORE.p12 -out STORE.pem turns a PKCS#12 store into it, "
    "keytool -importkeystore -deststoretype PKCS12 makes one of a JKS"
)


def _pem(values: _ClientSettings, *names: str) -> Pem | None:
    name = values.first(*names)
    if name is None:
        return None
    value = values.text(name)
    return (
        Pem(values.prefix + name, location=value)
        if name.endswith("location")
        else Pem(values.prefix + name, text=value)
    )


def _is_on(values: _ClientSettings, name: str, on: Literal["https", "true"], off: tuple[str, ...]) -> bool:
    given = values.text(name)
    given = on if given is None else given.strip().lower()
    if given != on and given not in off:
        raise InvalidSettingError(f"{values.prefix}{name} is {given!r}, but must be {on} or {off[-1]}")
    return given == on
