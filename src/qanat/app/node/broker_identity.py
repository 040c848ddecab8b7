"""This broker among brokers: the credentials and the certificate that it shows to others, and how it knows them.

By SASL, brokers share one name and password (`inter.broker.credentials.file`): every broker knows it from its own file,
so that the first one of a cluster needs no user in the metadata store. By TLS with client certificates, a
broker knows its own certificate's principal, and `super.users` names those of the others where they differ.

Which of them are shown is the other broker's choice: its registration has the security protocol of its listener. By
which SASL mechanism is this broker's choice: a listener between brokers takes all of them. So a cluster changes from
one protocol or mechanism to another broker by broker.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.adapters.credentials_file import PlainFile, read_credentials
from qanat.app.node.file_watch import FileWatch
from qanat.app.settings.listener_plan import INTERNAL, PlannedListener
from qanat.broker.security.user_credentials import SECRET_BYTES, CredentialImage, draw_nonce, stored_verifier
from qanat.connection.sasl import PASSWORD_MECHANISMS
from qanat.connection.security import Credentials, Security, Tls
from qanat.model.errors import InvalidSettingError
from qanat.security.authentication import Authenticator, Principal
from qanat.security.plain import MECHANISM as PLAIN
from qanat.security.principal_mapping import PrincipalMapping
from qanat.security.scram import HASHES, ITERATIONS_MIN, SALT_BYTES, Scram, ScramVerifier, verifier_of
from qanat.servers.tls.contexts import broker_context, own_certificate

if TYPE_CHECKING:
    from qanat.app.node.oauth import IdentityProviders
    from qanat.broker.broker import Broker
    from qanat.servers.tls.listener_tls import ListenerTls

_FILE = "inter.broker.credentials.file"


class BrokerIdentity:
    """Made from the listener between brokers."""

    def __init__(self, planned: PlannedListener, files: FileWatch) -> None:
        self._planned = planned
        self._path = planned.security.inter_broker_credentials_file
        self._credentials: Credentials | None = None
        self._verifiers: tuple[str, dict[str, ScramVerifier]] = "", {}
        """The name of brokers, and what SCRAM checks its password by."""
        self._context: ssl.SSLContext | None = None
        if self._path is not None:
            self._read_credentials()
            files.watch([self._path], self._read_credentials)
        elif planned.has_sasl:
            raise InvalidSettingError(
                f"brokers authenticate with each other by {planned.protocol}: set {_FILE} to a file with one line "
                "name:password, the same for every broker"
            )
        if planned.tls.has_certificate or planned.tls.has_trust:
            self._read_certificates()
            files.watch(planned.tls.files, self._read_certificates)

    def security(self, protocol: str) -> Security:
        """What this broker shows to a broker whose listener has this protocol."""
        credentials = self._credentials if protocol.startswith("SASL_") else None
        tls = Tls(made=self._context) if protocol.endswith("SSL") else None
        return Security(credentials, tls)

    def principals(self, tls: ListenerTls | None) -> tuple[str, ...]:
        """The principals of brokers, as far as this one knows them."""
        if self._credentials is not None and self._planned.has_sasl:
            return (str(Principal(self._credentials.username)),)
        own = own_certificate(self._planned.tls)
        name = PrincipalMapping(self._planned.tls.ssl_principal_mapping_rules).name_of(own.subject) if own else None
        return () if name is None else (str(Principal(name)),)

    def mechanisms(
        self, planned: PlannedListener, files: FileWatch, broker: Broker, providers: IdentityProviders
    ) -> Mapping[str, Authenticator]:
        """The mechanisms of the listener between brokers: their own credentials are accepted there by all of them, and
        those of clients where it is one of `listeners`."""
        from qanat.app.node.security import authenticator_of

        assert self._path is not None, "a SASL listener has credentials"
        enabled = () if planned.name == INTERNAL else planned.security.mechanisms
        users = planned.security.sasl_plain_credentials_file if PLAIN in enabled else None
        paths = [self._path] if users is None else [self._path, users]
        plain = PlainFile(*paths)
        files.watch(paths, plain.reload)
        found: dict[str, Authenticator] = {PLAIN: plain}
        for name in HASHES:
            found[name] = self._scram(name, broker.metadata.image, has_users=name in enabled)
        for name in enabled:
            if name not in found:
                found[name] = authenticator_of(name, planned.security, broker, providers)
        return found

    def _scram(self, mechanism: str, image: CredentialImage, *, has_users: bool) -> Scram:
        """SCRAM for brokers; and for the users of the cluster with `has_users`."""
        secret = secrets.token_bytes(SECRET_BYTES)

        def find(name: str) -> ScramVerifier | None:
            known_name, verifiers = self._verifiers
            if name == known_name:
                return verifiers[mechanism]
            return stored_verifier(mechanism, name, image) if has_users else None

        # Brokers connect before this one has read the metadata store, and with it the cluster's secret.
        return Scram(mechanism, find, lambda: image.scram_secret or secret, draw_nonce)

    def _read_credentials(self) -> None:
        assert self._path is not None
        found = list(read_credentials(self._path, _FILE).items())
        if len(found) != 1:
            raise InvalidSettingError(f"{_FILE} {self._path} should have one line name:password, and has {len(found)}")
        mechanism = self._planned.security.sasl_mechanism_inter_broker_protocol
        if mechanism not in PASSWORD_MECHANISMS:
            known = ", ".join(PASSWORD_MECHANISMS)
            raise InvalidSettingError(
                f"sasl.mechanism.inter.broker.protocol is {mechanism}, but must be one of {known}"
            )
        name, password = found[0]
        self._credentials = Credentials(mechanism, name, password)
        self._verifiers = (
            name,
            {one: verifier_of(one, password, secrets.token_bytes(SALT_BYTES), ITERATIONS_MIN) for one in HASHES},
        )

    def _read_certificates(self) -> None:
        self._context = broker_context(self._planned.tls)
