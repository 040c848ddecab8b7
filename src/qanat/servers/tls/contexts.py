"""TLS contexts from settings: of a listener, and of a broker that connects to another one."""

from __future__ import annotations

import ssl

from qanat.connection.private_files import require_private
from qanat.connection.security import Pem, Tls
from qanat.connection.tls import context_of, pem_content, show, trust
from qanat.model.errors import InvalidSettingError
from qanat.security.certificates import Certificate, InvalidCertificateError, certificates_in
from qanat.security.tls_settings import TlsSettings
from qanat.servers.tls.alerts import AlertingContext

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_TLS_1_3_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def listener_context(settings: TlsSettings, *, asks_for_certificate: bool) -> tuple[ssl.SSLContext, Certificate]:
    """The context of a listener and the certificate that it shows; raises `InvalidSettingError`.

    `asks_for_certificate` is false where clients authenticate by other means: then `ssl.client.auth` has no effect.
    """
    chain, key = _own(settings)
    if chain is None:
        raise InvalidSettingError(
            "an SSL or SASL_SSL listener needs a certificate: ssl.keystore.location, a PEM file with its key and chain"
        )
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _limit(context, settings)
    certificate = _first_certificate(chain)
    show(context, chain, key, settings.ssl_key_password)
    if asks_for_certificate and settings.ssl_client_auth != "none":
        trusted = _trusted(settings)
        if trusted is None:
            raise InvalidSettingError(
                f"ssl.client.auth={settings.ssl_client_auth} needs ssl.truststore.location: a PEM file with the "
                "certificates that sign those of clients"
            )
        trust(context, trusted)
        context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    return context, certificate


def broker_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context with which a broker connects to others: it shows its own certificate, where it has one."""
    chain, key = _own(settings)
    context = context_of(
        Tls(_trusted(settings), chain, key, settings.ssl_key_password, checks_host=settings.checks_host)
    )
    _limit(context, settings)
    return context


def own_certificate(settings: TlsSettings) -> Certificate | None:
    """The certificate that these settings show; None where they have none."""
    chain, _ = _own(settings)
    return None if chain is None else _first_certificate(chain)


def _own(settings: TlsSettings) -> tuple[Pem | None, Pem | None]:
    if settings.ssl_keystore_location is not None:
        require_private(settings.ssl_keystore_location, "ssl.keystore.location")
        pem = Pem("ssl.keystore.location", location=settings.ssl_keystore_location)
        return pem, pem
    if settings.ssl_keystore_certificate_chain is None:
        return None, None
    return (
        Pem("ssl.keystore.certificate.chain", text=settings.ssl_keystore_certificate_chain),
        Pem("ssl.keystore.key", text=settings.ssl_keystore_key),
    )


def _trusted(settings: TlsSettings) -> Pem | None:
    if settings.ssl_truststore_location is not None:
        return Pem("ssl.truststore.location", location=settings.ssl_truststore_location)
    if settings.ssl_truststore_certificates is not None:
        return Pem("ssl.truststore.certificates", text=settings.ssl_truststore_certificates)
    return None


def _first_certificate(chain: Pem) -> Certificate:
    try:
        found = certificates_in(pem_content(chain))
    except InvalidCertificateError as fault:
        raise InvalidSettingError(f"{chain.setting}: {fault}") from None
    if not found:
        raise InvalidSettingError(f"{chain.setting} has no certificate in it")
    return found[0]


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[name] for name in settings.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if not settings.ssl_cipher_suites.strip():
        return
    names = [name.strip() for name in settings.ssl_cipher_suites.split(",") if name.strip()]
    fixed = next((name for name in names if name in _TLS_1_3_SUITES), None)
    if fixed is not None:
        raise InvalidSettingError(
            f"ssl.cipher.suites: {fixed} is of TLS 1.3, whose suites are always all offered; leave it out"
        )
    for name in names:
        try:
            context.set_ciphers(openssl_name(name))
        except ssl.SSLError:
            raise InvalidSettingError(f"ssl.cipher.suites: {name} is not known here") from None
    context.set_ciphers(":".join(map(openssl_name, names)))


def openssl_name(suite: str) -> str:
    """The name that OpenSSL has for a suite of TLS 1.2; its own names stay as they are.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    'ECDHE-RSA-AES128-GCM-SHA256'
    >>> openssl_name("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    'ECDHE-ECDSA-CHACHA20-POLY1305'
    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384")
    'ECDHE-RSA-AES256-SHA384'
    """
    if not suite.startswith("TLS_"):
        return suite
    name = suite.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    name = name.replace("AES_128_", "AES128_").replace("AES_256_", "AES256_").replace("_CBC_", "_")
    return name.replace("POLY1305_SHA256", "POLY1305").replace("_", "-")
