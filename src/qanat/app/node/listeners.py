"""The listeners of a node, put together from their plan: TLS, authenticators and the authorizer of each.

A node without security makes none of it, and loads none of its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.app.node.file_watch import FileWatch
from qanat.app.node.oauth import IdentityProviders
from qanat.app.settings.listener_plan import ListenerPlan, PlannedListener
from qanat.model.errors import InvalidSettingError
from qanat.security.settings import SecuritySettings
from qanat.servers.kafka.endpoint import KafkaEndpoint
from qanat.telemetry.events import log_event

if TYPE_CHECKING:
    from qanat.app.node.broker_identity import BrokerIdentity
    from qanat.broker.broker import Broker
    from qanat.security.authentication import Authenticator
    from qanat.security.authorization import Authorizer
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.login_guard import LoginGuard
    from qanat.servers.tls.listener_tls import ListenerTls


class NodeListeners:
    """Makes the parts of every listener once; `certificates` are those that are shown."""

    def __init__(self, plan: ListenerPlan, settings: SecuritySettings, broker: Broker) -> None:
        self.plan = plan
        self.files = FileWatch()
        self.providers = IdentityProviders()
        self.certificates: list[ListenerTls] = []
        self._settings = settings
        self._broker = broker
        self._authorizer = _authorizer(settings, broker)
        self._securities: list[ListenerSecurity] = []
        self._login_guard: LoginGuard | None = None
        """One for all listeners of clients: a guess counts wherever it is made."""
        self.identity = _identity(plan.inter_broker, self.files)
        self._warn_of_unknown_brokers()

    def endpoint(self, planned: PlannedListener) -> KafkaEndpoint:
        """One of Kafka's listeners."""
        tls = self.tls(planned)
        return KafkaEndpoint(
            planned.name,
            planned.host,
            planned.port,
            planned.protocol,
            self.security(planned, tls),
            tls,
            planned.bootstrap_port,
            planned.is_inter_broker,
        )

    def tls(self, planned: PlannedListener) -> ListenerTls | None:
        """The TLS of a listener; None where it has none."""
        if not planned.has_tls:
            return None
        from qanat.servers.tls.listener_tls import ListenerTls

        try:
            tls = ListenerTls(planned.name, planned.tls, is_identity=not planned.has_sasl)
        except InvalidSettingError as fault:
            raise InvalidSettingError(f"listener {planned.name}: {fault}") from None
        self.certificates.append(tls)
        self.files.watch(planned.tls.files, tls.reload, tls.note_failed_reload)
        return tls

    def security(self, planned: PlannedListener, tls: ListenerTls | None) -> ListenerSecurity | None:
        """Authenticators and authorizer of a listener; None where every client may do everything."""
        if not planned.has_sasl and tls is None and self._authorizer is None:
            return None
        from qanat.servers.listener_security import ListenerSecurity

        brokers = None
        if planned.is_inter_broker and self.identity is not None and planned.asks_for_identity:
            brokers = self.identity.principals(tls)
        mechanisms = self._mechanisms(planned) if planned.has_sasl else None
        security = ListenerSecurity(
            mechanisms,
            self._authorizer,
            self._settings.super_principals,
            brokers,
            self._guard(planned) if planned.has_sasl else None,
            planned.security.connections_max_reauth_ms,
        )
        self._securities.append(security)
        return security

    async def prepare(self) -> None:
        """Prepare the security of the listeners that were made; the broker has started."""
        self.providers.start()
        if self._securities:
            from qanat.app.node.security import prepare

            await prepare(self._securities, self._broker)

    def _guard(self, planned: PlannedListener) -> LoginGuard:
        """The limits of failed logins; brokers have their own, which clients of the same address cannot use up."""
        from qanat.servers.login_guard import LoginGuard

        if planned.is_inter_broker:
            return LoginGuard(self._settings.login_budgets, self._broker.counters)
        if self._login_guard is None:
            self._login_guard = LoginGuard(self._settings.login_budgets, self._broker.counters)
        return self._login_guard

    def _mechanisms(self, planned: PlannedListener) -> Mapping[str, Authenticator]:
        from qanat.app.node.security import authenticators_of

        if planned.is_inter_broker and self.identity is not None:
            return self.identity.mechanisms(planned, self.files, self._broker, self.providers)
        found = authenticators_of(planned.security, self._broker, self.providers)
        path = planned.security.sasl_plain_credentials_file
        for one in found.values():
            if path is not None and (reload := getattr(one, "reload", None)) is not None:
                self.files.watch([path], reload)
        return found

    def _warn_of_unknown_brokers(self) -> None:
        between = self.plan.inter_broker
        if self._authorizer is None or between is None or between.requires_authentication:
            return
        if "User:ANONYMOUS" not in self._settings.super_principals:
            log_event(
                "brokers do not authenticate with each other: the authorizer must allow User:ANONYMOUS CLUSTER_ACTION",
                level="warning",
                setting="security.inter.broker.protocol",
            )


def _authorizer(settings: SecuritySettings, broker: Broker) -> Authorizer | None:
    if not settings.authorizer_class_name:
        return None
    from qanat.app.node.security import authorizer_of

    return authorizer_of(settings, broker)


def _identity(planned: PlannedListener | None, files: FileWatch) -> BrokerIdentity | None:
    if planned is None:
        return None
    is_known = planned.has_sasl or planned.tls.has_certificate or planned.tls.has_trust
    if not is_known and planned.security.inter_broker_credentials_file is None:
        return None
    from qanat.app.node.broker_identity import BrokerIdentity

    return BrokerIdentity(planned, files)
