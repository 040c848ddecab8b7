"""The identity providers of a node's listeners: one for the same settings, whichever listeners have them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qanat.model.errors import InvalidSettingError
from qanat.security.settings import SecuritySettings
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.adapters.oauth.jwks_tokens import JwksTokens
    from qanat.security.oauthbearer import OauthBearer

_URL = "sasl.oauthbearer.jwks.endpoint.url"
_PREFIX = "sasl_oauthbearer_"


class IdentityProviders:
    """Makes the mechanism OAUTHBEARER; `start` and `close` are called on the node's event loop."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], JwksTokens] = {}

    def mechanism(self, settings: SecuritySettings) -> OauthBearer:
        """The mechanism with these settings; raises `InvalidSettingError`."""
        # Imported late, as all security is: most nodes have none.
        from qanat.security.oauthbearer import OauthBearer

        names = [name for name in settings.__struct_fields__ if name.startswith(_PREFIX)]
        key = tuple(getattr(settings, name) for name in names)
        if key not in self._made:
            self._made[key] = _tokens(settings)
        return OauthBearer(self._made[key])

    def start(self) -> None:
        """Begin to fetch keys; a provider that is started already goes on."""
        for one in self._made.values():
            one.start()

    async def close(self) -> None:
        for one in self._made.values():
            await one.close()


def _tokens(settings: SecuritySettings) -> JwksTokens:
    if not settings.sasl_oauthbearer_jwks_endpoint_url:
        raise InvalidSettingError(f"the mechanism OAUTHBEARER needs {_URL}: where the keys of its tokens are")
    try:
        import_module("cryptography")  # PyJWT can be had without it, and then knows no algorithm of ours.
        from qanat.adapters.oauth.jwks_tokens import JwksTokens
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        raise InvalidSettingError(
            f"the mechanism OAUTHBEARER needs the package {package}: pip install 'qanat[security]'"
        ) from None
    made = JwksTokens(settings)
    if made.is_open_to_change:
        log_event(
            "keys of the identity provider come unprotected over http", level="warning", url=made.url, setting=_URL
        )
    for setting, value in (
        ("sasl.oauthbearer.expected.audience", settings.oauth_audiences),
        ("sasl.oauthbearer.expected.issuer", settings.sasl_oauthbearer_expected_issuer),
    ):
        if not value:
            log_event("tokens are accepted without one of their checks", level="warning", setting=setting)
    return made
