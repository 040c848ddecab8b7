"""The security of a node's listeners: mechanisms and authorizer, built-in ones and plugins.

SCRAM and the built-in authorizer work on the metadata image of the broker; all others are made from settings alone.
"""

from __future__ import annotations

from qanat.app.node.plugins import authenticator, authorizer
from qanat.broker.broker import Broker
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.broker.security.user_credentials import create_scram_secret, scram_mechanism
from qanat.model.errors import InvalidSettingError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.scram import HASHES
from qanat.security.settings import SecuritySettings
from qanat.servers.listener_security import ListenerSecurity

STANDARD_AUTHORIZERS = ("StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
"""Names of the built-in authorizer: its own, and that of Kafka's class."""


def listener_security(settings: SecuritySettings, broker: Broker) -> ListenerSecurity:
    """Authenticators and authorizer of a listener."""
    is_open = settings.listener_security_protocol == "PLAINTEXT"
    return ListenerSecurity(
        None if is_open else authenticators_of(settings, broker),
        authorizer_of(settings, broker) if settings.authorizer_class_name else None,
        settings.super_principals,
    )


async def prepare(security: ListenerSecurity, broker: Broker) -> None:
    """Write what mechanisms need in the metadata store, and read the rules, before the first client comes."""
    if broker.acl_authorizer is not None:
        broker.acl_authorizer.refresh()
    if any(name in HASHES for name in security.mechanisms or ()):
        await create_scram_secret(broker.metadata)


def authenticators_of(settings: SecuritySettings, broker: Broker) -> dict[str, Authenticator]:
    """The mechanisms that a listener offers, in the order of the setting."""
    if not settings.mechanisms:
        raise InvalidSettingError("a SASL_PLAINTEXT listener needs at least one of sasl.enabled.mechanisms")
    found: dict[str, Authenticator] = {}
    for name in settings.mechanisms:
        if name in HASHES:
            found[name] = scram_mechanism(name, broker.metadata.image)
        else:
            made = authenticator(name, settings, HASHES)
            found[made.mechanism] = made
    return found


def authorizer_of(settings: SecuritySettings, broker: Broker) -> Authorizer:
    """The authorizer that the settings name; one of the built-in kind serves all listeners of a broker."""
    if settings.authorizer_class_name not in STANDARD_AUTHORIZERS:
        return authorizer(settings, STANDARD_AUTHORIZERS[:1])
    if broker.acl_authorizer is None:
        is_open = settings.allow_everyone_if_no_acl_found
        broker.acl_authorizer = AclAuthorizer(broker.metadata.image, is_open=is_open)
    return broker.acl_authorizer
