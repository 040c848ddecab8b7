"""TLS settings of listeners and between brokers, under Kafka's names. Certificates and keys are PEM."""

from __future__ import annotations

from typing import Literal

from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings
from qanat.security.principal_mapping import PrincipalMapping

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
ClientAuth = Literal["none", "requested", "required"]
_HIDDEN = "[hidden]"


class TlsSettings(Settings, frozen=True):
    """The certificate that a listener shows, the certificates that it trusts, and what it asks of clients."""

    ssl_keystore_location: str | None = None
    """PEM file with the private key and the certificate chain; read again when it changes."""
    ssl_keystore_certificate_chain: str | None = None
    """The certificate chain as PEM text, instead of `ssl.keystore.location`; with `ssl.keystore.key`."""
    ssl_keystore_key: str | None = None
    """The private key as PEM text, instead of `ssl.keystore.location`."""
    ssl_keystore_type: Literal["PEM"] = "PEM"
    """Form of the key store; only PEM is read."""
    ssl_key_password: str | None = None
    """Password of the private key, where it is encrypted."""
    ssl_truststore_location: str | None = None
    """PEM file with the certificates that sign those of clients and of other brokers; read again when it changes."""
    ssl_truststore_certificates: str | None = None
    """The same as PEM text."""
    ssl_truststore_type: Literal["PEM"] = "PEM"
    """Form of the trust store; only PEM is read."""
    ssl_client_auth: ClientAuth = "none"
    """Whether clients of an `SSL` listener show a certificate, which is their principal: `none`, `requested`,
    `required`."""
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    """Versions of TLS that are spoken, separated by commas."""
    ssl_cipher_suites: str = ""
    """Cipher suites of TLS 1.2, separated by commas, by Java's or OpenSSL's names; empty for OpenSSL's choice."""
    ssl_principal_mapping_rules: str = "DEFAULT"
    """Rules that make a principal's name of a certificate's: `RULE:^CN=([^,]+),.*$/$1/L, DEFAULT`."""
    ssl_endpoint_identification_algorithm: Literal["https", "", "none"] = "https"
    """Whether a broker checks that another broker's certificate is for its host: `https`, or empty (or `none`)."""

    def __post_init__(self) -> None:
        for version in self.versions:
            if version not in PROTOCOLS:
                raise ValueError(f"ssl.enabled.protocols: {version!r} is not spoken; {' and '.join(PROTOCOLS)} are")
        if not self.versions:
            raise ValueError(f"ssl.enabled.protocols is empty; {' and '.join(PROTOCOLS)} are spoken")
        if self.ssl_keystore_location and (self.ssl_keystore_certificate_chain or self.ssl_keystore_key):
            raise ValueError("ssl.keystore.location and ssl.keystore.certificate.chain say the same: give one of them")
        if (self.ssl_keystore_certificate_chain is None) != (self.ssl_keystore_key is None):
            raise ValueError("ssl.keystore.certificate.chain and ssl.keystore.key go together")
        if self.ssl_truststore_location and self.ssl_truststore_certificates:
            raise ValueError("ssl.truststore.location and ssl.truststore.certificates say the same: give one of them")
        if self.ssl_principal_mapping_rules == "DEFAULT":
            return
        try:
            PrincipalMapping(self.ssl_principal_mapping_rules)
        except InvalidSettingError as fault:
            raise ValueError(str(fault)) from None

    def __repr__(self) -> str:
        """Without secrets: settings appear in logs and failures."""
        hidden = {"ssl_keystore_key", "ssl_key_password"}
        shown = (
            f"{name}={_HIDDEN if name in hidden and value is not None else repr(value)}"
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.ssl_enabled_protocols.split(",") if name.strip())

    @property
    def has_certificate(self) -> bool:
        return self.ssl_keystore_location is not None or self.ssl_keystore_certificate_chain is not None

    @property
    def has_trust(self) -> bool:
        return self.ssl_truststore_location is not None or self.ssl_truststore_certificates is not None

    @property
    def checks_host(self) -> bool:
        return self.ssl_endpoint_identification_algorithm == "https"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names."""
        return tuple(one for one in (self.ssl_keystore_location, self.ssl_truststore_location) if one is not None)
