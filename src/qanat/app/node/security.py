"""Mechanisms and authorizer of a node's listeners: built-in ones and plugins.

SCRAM and the built-in authorizer work on the metadata image of the broker; all others are made from settings alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qanat.app.node.plugins import authenticator, authorizer, is_installed
from qanat.broker.broker import Broker
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.broker.security.user_credentials import create_scram_secret, scram_mechanism
from qanat.model.errors import InvalidSettingError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.dry_run import DryRun
from qanat.security.oauthbearer import MECHANISM as OAUTHBEARER
from qanat.security.scram import HASHES
from qanat.security.settings import SecuritySettings
from qanat.servers.listener_security import ListenerSecurity
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.app.node.oauth import IdentityProviders

STANDARD_AUTHORIZERS = ("StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
"""Names of the built-in authorizer: its own, and that of Kafka's class."""


def authenticators_of(
    settings: SecuritySettings, broker: Broker, providers: IdentityProviders
) -> dict[str, Authenticator]:
    """The mechanisms that a listener offers, in the order of the setting."""
    if not settings.mechanisms:
        raise InvalidSettingError("a SASL listener needs at least one of sasl.enabled.mechanisms")
    made = [authenticator_of(name, settings, broker, providers) for name in settings.mechanisms]
    return {one.mechanism: one for one in made}


def authenticator_of(
    name: str, settings: SecuritySettings, broker: Broker, providers: IdentityProviders
) -> Authenticator:
    """The mechanism of that name, with the users of the listener."""
    if name in HASHES:
        return scram_mechanism(name, broker.metadata.image)
    if name == OAUTHBEARER and (settings.sasl_oauthbearer_jwks_endpoint_url or not is_installed(name)):
        return providers.mechanism(settings)
    return authenticator(name, settings, (*HASHES, OAUTHBEARER))


def authorizer_of(settings: SecuritySettings, broker: Broker) -> Authorizer:
    """The authorizer that the settings name; one of the built-in kind serves all listeners of a broker."""
    if settings.authorizer_class_name not in STANDARD_AUTHORIZERS:
        if settings.authorizer_dry_run:
            raise InvalidSettingError("authorizer.dry.run needs authorizer.class.name=StandardAuthorizer")
        return authorizer(settings, STANDARD_AUTHORIZERS[:1])
    if broker.acl_authorizer is None:
        is_open = settings.allow_everyone_if_no_acl_found
        broker.acl_authorizer = AclAuthorizer(broker.metadata.image, is_open=is_open)
        if settings.authorizer_dry_run:
            broker.acl_authorizer.dry_run = DryRun()
            log_event("the authorizer is in a dry run: what no rule allows is let through", level="warning")
    return broker.acl_authorizer


async def prepare(securities: Iterable[ListenerSecurity], broker: Broker) -> None:
    """Write what mechanisms need in the metadata store, and read the rules, before the first client comes."""
    if broker.acl_authorizer is not None:
        broker.acl_authorizer.refresh()
    if any(name in HASHES for security in securities for name in security.mechanisms or ()):
        await create_scram_secret(broker.metadata)
