"""Users and ACLs of a broker in a test: who logs in by SCRAM, and what each may do.

The listener is SASL_PLAINTEXT on loopback, and the authorizer is the built-in one: what no rule allows is denied.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.security.scram import HASHES, ITERATIONS_MIN, SALT_BYTES

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.cluster.values import AclEntry

_PROTOCOL, _MECHANISM = "SASL_PLAINTEXT", "SCRAM-SHA-512"
_KINDS = ("topic", "group", "transactional_id", "cluster")


def secured_settings() -> dict[str, object]:
    """Settings of a broker with users and ACLs."""
    return {
        "listener.security.protocol": _PROTOCOL,
        "sasl.enabled.mechanisms": ",".join(HASHES),
        "authorizer.class.name": "StandardAuthorizer",
    }


def client_settings(bootstrap_servers: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": _PROTOCOL,
        "sasl.mechanism": _MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
    }


async def set_passwords(broker: Broker, users: Mapping[str, str]) -> None:
    """Set the passwords of users, for every mechanism."""
    from qanat.broker.security.user_credentials import credential_of
    from qanat.cluster.credentials import decide_upsert
    from qanat.security.scram import verifier_of

    for user, password in users.items():
        for mechanism in HASHES:
            verifier = verifier_of(mechanism, password, secrets.token_bytes(SALT_BYTES), ITERATIONS_MIN)
            plan = decide_upsert(user, mechanism, credential_of(verifier))
            await broker.metadata.commit(plan.compares, plan.operations)


def rule_of(user: str, operation: str, resource: Mapping[str, str], *, is_allowed: bool) -> AclEntry:
    """A rule; `name*` is a prefix, `*` is every name. Raises `ValueError` where it cannot be."""
    from qanat.broker.security.acl_entries import entry_of
    from qanat.security.acls import ANY, Acl, PatternType, Permission
    from qanat.security.authorization import CLUSTER, Operation, ResourceKind

    if len(resource) != 1 or next(iter(resource)) not in _KINDS:
        raise ValueError(f"a rule is about one of {', '.join(_KINDS)}, not {', '.join(resource) or 'nothing'}")
    ((kind, name),) = resource.items()
    known = {one.name.lower().replace("_", "-"): one for one in Operation if one.name not in ("UNKNOWN", "ANY")}
    if operation not in known:
        raise ValueError(f"{operation!r} is no operation: {', '.join(known)}")
    is_prefix = name.endswith("*") and name != ANY
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    name = CLUSTER.name if kind == "cluster" else name[:-1] if is_prefix else name
    permission = Permission.ALLOW if is_allowed else Permission.DENY
    return entry_of(Acl(ResourceKind[kind.upper()], name, pattern, f"User:{user}", ANY, known[operation], permission))


async def change_rule(broker: Broker, rule: AclEntry, *, is_created: bool) -> None:
    """Create or delete a rule; it is in force when this returns."""
    from qanat.cluster.acls import decide_create, decide_delete, key_of

    await broker.metadata_changes.carry_out(
        lambda image: decide_create(image, [rule]) if is_created else decide_delete(image, [key_of(rule)])
    )
