"""Security settings of a broker, under Kafka's names where Kafka has one."""

from __future__ import annotations

from typing import Literal

from qanat.model.settings import Settings

SecurityProtocol = Literal["PLAINTEXT", "SASL_PLAINTEXT"]


class SecuritySettings(Settings, frozen=True):
    """Authentication and authorization of clients."""

    listener_security_protocol: SecurityProtocol = "PLAINTEXT"
    """Security protocol of the Kafka listener: `SASL_PLAINTEXT` requires authentication; nothing is encrypted."""
    sasl_enabled_mechanisms: str = "PLAIN"
    """Mechanisms that a `SASL_PLAINTEXT` listener offers, separated by commas: `PLAIN`, `SCRAM-SHA-256`,
    `SCRAM-SHA-512`, or installed authenticators."""
    sasl_plain_credentials_file: str | None = None
    """Names and passwords for the mechanism PLAIN: a file with one `name:password` a line."""
    authorizer_class_name: str = ""
    """Authorizer that decides what a principal may do: `StandardAuthorizer` decides by ACLs, and Kafka's
    `org.apache.kafka.metadata.authorizer.StandardAuthorizer` stands for it; others are installed. Empty allows
    everything."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether a resource that no ACL names is open to every principal."""
    super_users: str = ""
    """Principals that bypass the authorizer, such as `User:admin;User:root`."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.sasl_enabled_mechanisms.split(",") if name.strip())

    @property
    def super_principals(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.super_users.split(";") if name.strip())
