"""TLS contexts from PEM, and TLS errors in words."""

from __future__ import annotations

import ssl

from qanat.connection.security import Pem, Tls
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, QanatError

NO_TLS = "it closed the connection in the TLS handshake: it may not speak TLS at all (security.protocol)"
WANTS_CERTIFICATE = "it may want a certificate of us: ssl.certificate.location and ssl.key.location"
_BEGIN = b"-----BEGIN "


class UntrustedError(QanatError):
    """The broker's certificate is not trusted, or belongs to another host."""

    code = ErrorCode.NETWORK_EXCEPTION


def context_of(tls: Tls) -> ssl.SSLContext:
    """The TLS context; raises `InvalidSettingError` naming the setting whose file or text cannot be used."""
    if tls.made is not None:
        return tls.made
    context = ssl.create_default_context()
    if tls.trusted is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        trust(context, tls.trusted)
    if tls.certificate is not None:
        show(context, tls.certificate, tls.key, tls.key_password)
    context.check_hostname = tls.checks_host and tls.checks_certificate
    if not tls.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    return context


def trust(context: ssl.SSLContext, trusted: Pem) -> None:
    """Trust what these certificates sign."""
    try:
        context.load_verify_locations(cadata=pem_content(trusted).decode("ascii", "replace"))
    except ssl.SSLError as fault:
        raise InvalidSettingError(f"{trusted.setting}: no certificate can be read from it ({fault.reason})") from None


def show(context: ssl.SSLContext, certificate: Pem, key: Pem | None, password: str | None) -> None:
    """Show this certificate to the other end."""
    # Imported late: clients without a certificate start faster.
    import tempfile
    from pathlib import Path

    # Python reads a key from a file only; this one is private and removed at once.
    with tempfile.TemporaryDirectory() as folder:
        chain, private = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(pem_content(certificate))
        private.write_bytes(pem_content(key or certificate))
        asked = False

        def give() -> str:
            nonlocal asked
            asked = True
            return password or ""

        try:
            context.load_cert_chain(chain, private, password=give)
        except (ssl.SSLError, ValueError) as fault:
            setting = (key or certificate).setting
            reason = getattr(fault, "reason", None) or "no private key in it"
            if asked:
                reason = "ssl.key.password does not open it" if password else "it is encrypted: set ssl.key.password"
            raise InvalidSettingError(f"{setting}: the key cannot be used with the certificate: {reason}") from None


def pem_content(pem: Pem) -> bytes:
    """The PEM text; raises `InvalidSettingError` where there is none."""
    if pem.location is None:
        content = (pem.text or "").encode()
    else:
        try:
            with open(pem.location, "rb") as file:
                content = file.read()
        except OSError as fault:
            raise InvalidSettingError(f"{pem.setting} {pem.location}: {fault.strerror}") from None
    if _BEGIN not in content:
        what = "a Java key store (JKS)" if content.startswith(b"\xfe\xed\xfe\xed") else "not PEM"
        where = f" {pem.location}" if pem.location else ""
        raise InvalidSettingError(
            f"{pem.setting}{where} is {what}; PEM is needed: keytool -importkeystore -deststoretype PKCS12, "
            "then openssl pkcs12 -in STORE.p12 -out STORE.pem, turn a store into it"
        )
    return content


def describe_fault(fault: ssl.SSLError) -> str:
    """Why the TLS handshake failed, and what may help."""
    reason = str(fault.reason or fault.strerror or fault).lower().replace("_", " ")
    for sign, meaning in _MEANINGS.items():
        if sign in reason:
            return meaning
    return f"TLS failed: {reason}"


_MEANINGS = {
    "wrong version number": "it does not speak TLS: security.protocol should be PLAINTEXT or SASL_PLAINTEXT",
    "record layer failure": "it does not speak TLS: security.protocol should be PLAINTEXT or SASL_PLAINTEXT",
    "eof": NO_TLS,
    "certificate required": WANTS_CERTIFICATE,
    "handshake failure": f"both sides could not agree; {WANTS_CERTIFICATE}",
    "bad certificate": "it does not accept our certificate (ssl.certificate.location)",
    "unknown ca": "it does not trust the issuer of our certificate (ssl.certificate.location)",
}


def untrusted(address: str, fault: ssl.SSLCertVerificationError) -> UntrustedError:
    """The error for a broker whose certificate is not trusted."""
    reason = (fault.verify_message or str(fault)).rstrip(".")
    if "mismatch" in reason.lower() or "not valid for" in reason.lower():
        hint = "connect by the name in its certificate, or set ssl.endpoint.identification.algorithm to none"
    else:
        hint = "put the certificate of its issuer into ssl.ca.location"
    return UntrustedError(f"{address} cannot be trusted: {reason}; {hint}")
