"""Security settings of a broker, under Kafka's names where Kafka has one."""

from __future__ import annotations

from typing import Literal

from qanat.model.settings import NotNegative, Positive, Settings
from qanat.security.login_limits import LoginBudgets

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class SecuritySettings(Settings, frozen=True):
    """Authentication and authorization of clients and brokers."""

    listener_security_protocol: SecurityProtocol = "PLAINTEXT"
    """Security protocol of the Kafka listener, where `listeners` does not name it: `PLAINTEXT`, `SSL` (TLS),
    `SASL_PLAINTEXT` (authentication) or `SASL_SSL` (both)."""
    allow_unauthenticated_clients: bool = False
    """Whether a listener beyond loopback may serve clients that do not authenticate."""
    sasl_enabled_mechanisms: str = "PLAIN"
    """Mechanisms that `SASL_PLAINTEXT` and `SASL_SSL` listeners offer, separated by commas: `PLAIN`, `SCRAM-SHA-256`,
    `SCRAM-SHA-512`, `OAUTHBEARER`, or installed authenticators."""
    connections_max_reauth_ms: NotNegative = 0
    """How long a client stays authenticated by SASL; one that sends requests after that without having authenticated
    again is disconnected. 0 limits it by the client's credential only, such as a token."""
    sasl_plain_credentials_file: str | None = None
    """Names and passwords for the mechanism PLAIN: a file with one `name:password` a line, readable by its owner only.
    It is read again when it changes."""
    security_inter_broker_protocol: SecurityProtocol | None = None
    """Security protocol between brokers on `inter.broker.port`. Without it, that of the first Kafka listener that
    requires authentication, else `PLAINTEXT`."""
    inter_broker_credentials_file: str | None = None
    """A file with one line `name:password`, readable by its owner only: by it brokers know each other on a SASL
    listener between brokers. Every broker of the cluster has the same; its name is a super user."""
    sasl_mechanism_inter_broker_protocol: str = "PLAIN"
    """SASL mechanism by which a broker authenticates with others: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_oauthbearer_jwks_endpoint_url: str | None = None
    """URL, `https` or `http`, of the keys that tokens of the mechanism OAUTHBEARER are signed with (JWKS). Redirects
    are not followed."""
    sasl_oauthbearer_expected_audience: str = ""
    """Audiences, separated by commas, one of which a token must be for. Empty accepts only tokens without any."""
    sasl_oauthbearer_expected_issuer: str | None = None
    """Issuer that a token must have. Without it, every issuer that signs with these keys."""
    sasl_oauthbearer_clock_skew_seconds: NotNegative = 30
    """How far the clocks of broker and identity provider may differ."""
    sasl_oauthbearer_sub_claim_name: str = "sub"
    """Claim of a token that has the principal's name."""
    sasl_oauthbearer_scope_claim_name: str = "scope"
    """Claim of a token that has its scopes: they must be texts, and grant nothing."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Positive = 60 * 60 * 1000
    """How often the keys are fetched. An unknown key is fetched at once, every 10 s at most."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Positive = 100
    """Pause before a failed fetch of the keys is repeated; it doubles with every failure."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Positive = 10_000
    """Longest of these pauses."""
    sasl_oauthbearer_jwks_endpoint_stale_max_ms: Positive = 24 * 60 * 60 * 1000
    """How long keys are used after their fetch, while the identity provider does not answer. Then every token is
    refused."""
    login_failures_per_user: NotNegative = 5
    """Failed logins of one user name from one address before the next ones have to wait: 1 s, 2 s, 4 s and so on. 0
    sets no limit."""
    login_failures_per_address: NotNegative = 5
    """Failed logins from one address that are evaluated in a second, over all user names. 0 sets no limit."""
    login_wait_max_ms: Positive = 60_000
    """Longest wait after failed logins of one user name from one address."""
    login_timeout_ms: Positive = 10_000
    """How long a client of a SASL listener may take to authenticate; then its connection is closed."""
    max_unauthenticated_connections: Positive = 1_000
    """Connections to SASL listeners that have not authenticated yet; one more closes the oldest of them."""
    sasl_server_max_receive_size: Positive = 65_536
    """Largest request of a client that has not authenticated yet, in bytes."""
    authorizer_class_name: str = ""
    """Authorizer that decides what a principal may do: `StandardAuthorizer` decides by ACLs, and Kafka's
    `org.apache.kafka.metadata.authorizer.StandardAuthorizer` stands for it; others are installed. Empty allows
    everything."""
    authorizer_dry_run: bool = False
    """Whether the built-in authorizer records what no rule allows, and lets it through: `qanat acl suggest` makes rules
    of it."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether a resource that no ACL names is open to every principal."""
    super_users: str = ""
    """Principals that bypass the authorizer, such as `User:admin;User:root`."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.sasl_enabled_mechanisms.split(",") if name.strip())

    @property
    def oauth_audiences(self) -> tuple[str, ...]:
        return tuple(one.strip() for one in self.sasl_oauthbearer_expected_audience.split(",") if one.strip())

    @property
    def login_budgets(self) -> LoginBudgets:
        return LoginBudgets(
            self.login_failures_per_user, self.login_failures_per_address, self.login_wait_max_ms / 1000
        )

    @property
    def super_principals(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.super_users.split(";") if name.strip())
