"""The settings that a single listener may have for itself, as `listener.name.<name>.<setting>`."""

from __future__ import annotations

from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings

BOOTSTRAP_PORT = "bootstrap.port"
OF_SECURITY = (
    "allow.unauthenticated.clients",
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.plain.credentials.file",
    *(name for name in SecuritySettings.__struct_encode_fields__ if name.startswith("sasl.oauthbearer.")),
)
PER_LISTENER = (*TlsSettings.__struct_encode_fields__, *OF_SECURITY, BOOTSTRAP_PORT)


class ListenerOverrides(dict[str, str]):
    """The settings of one listener; secrets may be among them, so that their values are not shown."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"
