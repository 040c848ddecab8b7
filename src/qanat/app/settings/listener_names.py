"""The settings that a single listener may have for itself, as `listener.name.<name>.<setting>`."""

from __future__ import annotations

from qanat.security.tls_settings import TlsSettings

BOOTSTRAP_PORT = "bootstrap.port"
OF_SECURITY = ("allow.unauthenticated.clients", "sasl.enabled.mechanisms", "sasl.plain.credentials.file")
PER_LISTENER = (*TlsSettings.__struct_encode_fields__, *OF_SECURITY, BOOTSTRAP_PORT)
