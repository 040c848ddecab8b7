"""Users, passwords, ACLs and API keys as the administrator; and whether a client is let in."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from qanat.app.api_keys.key_store import KeyPlace, on_keys
from qanat.cluster import values
from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.connection.sasl import NotAuthenticatedError
from qanat.connection.security import Security, security_of
from qanat.model.error_codes import ErrorCode
from qanat.security.api_keys import ID_BYTES, SECRET_BYTES, compose, hash_of, key_id
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey
from verify.security_fire.clients import OPTIONS, wait_until

PARTITIONS = 3
_TIMEOUT_S = 60.0
MECHANISM = "SCRAM-SHA-512"


def scram(bootstrap: str, authority: str, user: str, password: str) -> dict[str, Any]:
    """Settings of librdkafka for a user with a password."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": authority,
    }


def rule(user: str, operation: AclOperation, kind: ResourceType, name: str, *, is_prefix: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def write(user: str, name: str, *, is_prefix: bool = False) -> AclBinding:
    return rule(user, AclOperation.WRITE, ResourceType.TOPIC, name, is_prefix=is_prefix)


def read(user: str, name: str, *, is_prefix: bool = False) -> AclBinding:
    return rule(user, AclOperation.READ, ResourceType.TOPIC, name, is_prefix=is_prefix)


def read_group(user: str, name: str) -> AclBinding:
    return rule(user, AclOperation.READ, ResourceType.GROUP, name)


class Administration:
    """Changes are repeated until they are acknowledged: brokers die meanwhile."""

    def __init__(self, security: Mapping[str, Any], store_file: Path | None = None) -> None:
        """`store_file` has the settings of the metadata store, for API keys."""
        self._client = AdminClient({**OPTIONS, **security})
        self._place = KeyPlace(config=store_file)

    def _insist(self, act: Any, what: str) -> None:
        def is_done() -> bool:
            try:
                for future in act().values():
                    future.result()
            except KafkaException as fault:
                error = fault.args[0]
                if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return True
                if not error.retriable() and error.code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                    raise
                return False
            return True

        wait_until(is_done, what, _TIMEOUT_S)

    def create_topics(self, names: Iterable[str]) -> None:
        topics = [NewTopic(name, PARTITIONS, 3) for name in names]
        self._insist(lambda: self._client.create_topics(topics, request_timeout=10), "topics are created")

    def set_password(self, user: str) -> str:
        """Draw a password and set it; returns it."""
        password = secrets.token_urlsafe(12)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        self._insist(lambda: self._client.alter_user_scram_credentials([change], request_timeout=10), "a password")
        return password

    def add_key(self, user: str) -> str:
        """A new API key, as `qanat api-key add` makes it."""
        identity = secrets.token_hex(ID_BYTES)
        key = compose(identity, secrets.token_urlsafe(SECRET_BYTES))
        stored = values.ApiKey(user=user, hash=hash_of(key), created_ms=int(time.time() * 1000))
        on_keys(self._place, lambda store: store.add(identity, stored))
        return key

    def remove_key(self, key: str) -> None:
        identity = key_id(key)
        assert identity is not None
        on_keys(self._place, lambda store: store.remove(identity))

    def allow(self, *rules: AclBinding) -> None:
        self._insist(lambda: self._client.create_acls(list(rules), request_timeout=10), "ACLs are created")

    def revoke(self, *rules: AclBinding) -> None:
        filters = [
            AclBindingFilter(
                one.restype,
                one.name,
                one.resource_pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in rules
        ]
        self._insist(lambda: self._client.delete_acls(filters, request_timeout=10), "ACLs are deleted")


def may_read(settings: Mapping[str, str], topic: str, ports: Iterable[int]) -> list[bool]:
    """Whether each broker shows a topic to a user, who may describe it only as long as it may read it."""
    return asyncio.run(_may_read(security_of(settings), topic, ports))


def is_let_in(settings: Mapping[str, str], port: int) -> bool:
    """Whether a broker lets a client in; a wrong credential is no error here."""
    return asyncio.run(_is_let_in(security_of(settings), port))


async def _is_let_in(security: Security, port: int) -> bool:
    deadline = Deadline.after(_TIMEOUT_S)
    try:
        link = await Link.open("127.0.0.1", port, "prober", deadline, security)
    except NotAuthenticatedError:
        return False
    await link.close()
    return True


def trusts(port: int, authority: str) -> bool:
    """Whether a client that trusts these authorities trusts a broker."""
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as plain:
        try:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        except ssl.SSLCertVerificationError:
            return False
    return True


async def _may_read(security: Security, topic: str, ports: Iterable[int]) -> list[bool]:
    found = []
    for port in ports:
        deadline = Deadline.after(_TIMEOUT_S)
        link = await Link.open("127.0.0.1", port, "guest", deadline, security)
        try:
            response = await link.call(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=topic)]), deadline)
        finally:
            await link.close()
        found.append(response.topics[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return found
