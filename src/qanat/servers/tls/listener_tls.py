"""The TLS of one listener: its context in force, the principals of its clients, the end of its certificate."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

from qanat.security.authentication import ANONYMOUS, Principal
from qanat.security.certificates import InvalidCertificateError, read_certificate
from qanat.security.principal_mapping import PrincipalMapping
from qanat.security.tls_settings import TlsSettings
from qanat.servers.tls.contexts import listener_context
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    import asyncio

_SOON_S = 14 * 24 * 60 * 60
"""A certificate that expires sooner is an event whenever it is loaded."""


class ListenerTls:
    """Made with its settings; `reload` reads their files again."""

    def __init__(self, name: str, settings: TlsSettings, *, is_identity: bool) -> None:
        """`is_identity` says that a client's certificate is its principal, as it is without SASL."""
        self.name = name
        self.settings = settings
        self.is_identity = is_identity
        self.failed_handshakes = 0
        self.failed_reloads = 0
        self._mapping = PrincipalMapping(settings.ssl_principal_mapping_rules)
        self.context: ssl.SSLContext
        """In force for connections that are accepted now."""
        self.not_after_s = 0
        """When the certificate expires, in seconds since 1970."""
        self.reload()

    def reload(self) -> None:
        """Read the files; raises `InvalidSettingError`, and keeps what was read before, where they cannot be used."""
        context, certificate = listener_context(self.settings, asks_for_certificate=self.is_identity)
        self.context, self.not_after_s = context, certificate.not_after_s
        left_s = certificate.not_after_s - time.time()
        if left_s < _SOON_S:
            event = "certificate has expired" if left_s <= 0 else "certificate expires soon"
            log_event(
                event, level="warning", listener=self.name, subject=certificate.subject, days=int(left_s // 86400)
            )

    def note_failed_reload(self) -> None:
        self.failed_reloads += 1

    @property
    def requires_certificate(self) -> bool:
        return self.is_identity and self.settings.ssl_client_auth == "required"

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        """The principal of a client after its handshake; None where its certificate gives none: it is refused."""
        if not self.is_identity:
            return ANONYMOUS
        shown: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        der = None if shown is None else shown.getpeercert(binary_form=True)
        if der is None:
            return None if self.requires_certificate else ANONYMOUS
        try:
            name = self._mapping.name_of(read_certificate(der).subject)
        except InvalidCertificateError:
            return None
        return None if name is None else Principal(name)
