"""Which client logs in by which mechanism, and how it says that it was refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.clients.logins.librdkafka import ConfluentLogins, KcatLogins
from tests.clients.logins.login import LoginClient
from tests.clients.logins.programs import FranzGoLogins, JavaLogins, KafkaJsLogins, SaramaLogins
from tests.clients.logins.python_clients import AioKafkaLogins, KafkaPythonLogins
from tests.clients.logins.secured_broker import Secured

SPARK = "Spark's Kafka connector"


@dataclass(frozen=True)
class Says:
    """What a client says of a wrong credential: a regular expression."""

    refused: str


@dataclass(frozen=True)
class Cannot:
    """Why a client does not have the mechanism, and what it says: a regular expression."""

    reason: str
    says: str


_NONCE = "librdkafka before 2.6.1 sends its nonce twice, which RFC 5802 forbids and Kafka 4.1 refuses"

MATRIX: Mapping[str, Mapping[str, Says | Cannot]] = {
    "confluent-kafka": {
        "PLAIN": Says("_AUTHENTICATION"),
        "SCRAM-SHA-256": Says("_AUTHENTICATION"),
        "SCRAM-SHA-512": Says("_AUTHENTICATION"),
        "OAUTHBEARER": Says("_AUTHENTICATION"),
        "mTLS": Says("alert unknown ca"),
    },
    "kafka-python": {
        "PLAIN": Says("SaslAuthenticationFailed"),
        "SCRAM-SHA-256": Says("SaslAuthenticationFailed"),
        "SCRAM-SHA-512": Says("SaslAuthenticationFailed"),
        "OAUTHBEARER": Says("SaslAuthenticationFailed"),
        "mTLS": Says("(?i)alert unknown ca"),
    },
    "aiokafka": {
        "PLAIN": Says("SaslAuthenticationFailed"),
        "SCRAM-SHA-256": Says("SaslAuthenticationFailed"),
        "SCRAM-SHA-512": Says("SaslAuthenticationFailed"),
        "OAUTHBEARER": Says("Connection at .* closed"),
        "mTLS": Says("Connection at .* closed"),
    },
    "kcat": {
        "PLAIN": Says("Authentication failure"),
        "SCRAM-SHA-256": Cannot(_NONCE, "Authentication failure"),
        "SCRAM-SHA-512": Cannot(_NONCE, "Authentication failure"),
        "OAUTHBEARER": Cannot("Debian's librdkafka 2.0.2 is built without OIDC", "not supported in this build"),
        "mTLS": Says("alert unknown ca"),
    },
    "kafkajs": {
        "PLAIN": Says("KafkaJSSASLAuthenticationError"),
        "SCRAM-SHA-256": Says("KafkaJSSASLAuthenticationError"),
        "SCRAM-SHA-512": Says("KafkaJSSASLAuthenticationError"),
        "OAUTHBEARER": Says("Closed connection"),
        "mTLS": Says("(?i)alert unknown ca"),
    },
    "Java kafka-clients": {
        "PLAIN": Says("SaslAuthenticationException"),
        "SCRAM-SHA-256": Says("SaslAuthenticationException"),
        "SCRAM-SHA-512": Says("SaslAuthenticationException"),
        "OAUTHBEARER": Says("SaslAuthenticationException"),
        "mTLS": Says("SslAuthenticationException"),
    },
    "sarama": {
        "PLAIN": Says("SASL Authentication failed"),
        "SCRAM-SHA-256": Says("SASL Authentication failed"),
        "SCRAM-SHA-512": Says("SASL Authentication failed"),
        "OAUTHBEARER": Says("SASL Authentication failed"),
        "mTLS": Says("remote error: tls"),
    },
    "franz-go": {
        "PLAIN": Says("SASL_AUTHENTICATION_FAILED"),
        "SCRAM-SHA-256": Says("SASL_AUTHENTICATION_FAILED"),
        "SCRAM-SHA-512": Says("SASL_AUTHENTICATION_FAILED"),
        "OAUTHBEARER": Says("unexpected data in oauth response"),
        "mTLS": Says("remote error: tls"),
    },
    SPARK: {
        "PLAIN": Says("SaslAuthenticationException"),
        "SCRAM-SHA-256": Says("SaslAuthenticationException"),
        "SCRAM-SHA-512": Says("SaslAuthenticationException"),
        "OAUTHBEARER": Says("SaslAuthenticationException"),
        "mTLS": Says("SslAuthenticationException"),
    },
}

DENIED = {
    "confluent-kafka": "(TOPIC|GROUP)_AUTHORIZATION_FAILED",
    "kafka-python": "(Topic|Group)AuthorizationFailed",
    "aiokafka": "(Topic|Group)AuthorizationFailed",
    "kcat": "(Topic|Group) authorization failed",
    "kafkajs": "(?i)not authorized to access (topics|group)",
    "Java kafka-clients": "(Topic|Group)AuthorizationException",
    "sarama": "not authorized to access this (topic|group)",
    "franz-go": "(TOPIC|GROUP)_AUTHORIZATION_FAILED",
    SPARK: "(Topic|Group)AuthorizationException",
}
"""What each client says where ACLs forbid: a regular expression."""

CLIENTS: Mapping[str, Callable[[Secured], LoginClient]] = {
    "confluent-kafka": lambda _: ConfluentLogins(),
    "kafka-python": lambda _: KafkaPythonLogins(),
    "aiokafka": lambda _: AioKafkaLogins(),
    "kcat": lambda _: KcatLogins(),
    "kafkajs": lambda _: KafkaJsLogins(),
    "Java kafka-clients": lambda secured: JavaLogins(secured.token_url),
    "sarama": lambda _: SaramaLogins(),
    "franz-go": lambda _: FranzGoLogins(),
}
"""All but Spark's connector, which takes its time (`test_spark_connector`)."""


KCAT_WITH_REASONS = "librdkafka 2.0.2"
"""The version that the reasons of kcat are about; a later one may do more."""


def cells(*clients: str) -> list[tuple[str, str]]:
    """Client and mechanism, where the client has it."""
    return [
        (client, mechanism) for client in clients for mechanism, row in MATRIX[client].items() if isinstance(row, Says)
    ]


def refused(client: str, mechanism: str) -> str:
    row = MATRIX[client][mechanism]
    assert isinstance(row, Says)
    return row.refused
