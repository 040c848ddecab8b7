"""CreateAcls, DescribeAcls and DeleteAcls: every kind of filter, every way to get a rule wrong."""

from __future__ import annotations

from typing import Any

from qanat.security.acls import Permission
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from qanat.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from qanat.wire.kafka.messages.describe_acls import DescribeAclsRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation

CREATE, DESCRIBE, DELETE = ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN, USER = 2, 3, 4, 5, 6, 7
READ, DENY, ALLOW = Operation.READ, Permission.DENY, Permission.ALLOW
_USERS_FROM = 3
NUMBERS = {"unknown": 0, "any": 1, "out of bounds": 99}


def rule(name: str, kind: int = TOPIC, pattern: int = LITERAL, **fields: Any) -> AclCreation:
    chosen = {"principal": "User:alice", "host": "*", "operation": int(READ), "permission_type": int(ALLOW), **fields}
    return AclCreation(kind, name, pattern, **chosen)


def rules(name: str) -> list[AclCreation]:
    """Rules of two users, of every pattern, on several kinds of resources."""
    return [
        rule(name),
        rule(name, principal="User:bob", permission_type=int(DENY), host="10.0.0.1"),
        rule(name, GROUP, operation=int(Operation.ALL)),
        rule(name[:-2], pattern=PREFIXED),
        rule(name[:-2], pattern=PREFIXED, operation=int(Operation.WRITE)),
        rule(f"{name}-other"),
        rule("*", principal=f"User:{name}"),
        rule("kafka-cluster", CLUSTER, principal=f"User:{name}"),
        rule(name, TRANSACTION, principal="User:*"),
        rule(name, TOKEN),
    ]


def _filters(name: str) -> dict[str, tuple[Any, ...]]:
    """Filters as the fields of a request, by what they are for."""
    return {
        "by name, literal": (TOPIC, name, LITERAL, None, None, ANY, ANY),
        "by name, prefixed": (TOPIC, name[:-2], PREFIXED, None, None, ANY, ANY),
        "by a name that is no prefix of a rule": (TOPIC, name, PREFIXED, None, None, ANY, ANY),
        "by name, any pattern": (TOPIC, name, ANY, None, None, ANY, ANY),
        "by name of any kind": (ANY, name, ANY, None, None, ANY, ANY),
        "by name, all that match": (TOPIC, name, MATCH, f"User:{name}", None, ANY, ANY),
        "all that match, of alice": (TOPIC, name, MATCH, "User:alice", None, ANY, ANY),
        "by principal": (ANY, None, ANY, f"User:{name}", None, ANY, ANY),
        "by host": (ANY, name, ANY, None, "10.0.0.1", ANY, ANY),
        "by operation": (ANY, name[:-2], ANY, None, None, int(Operation.WRITE), ANY),
        "by operation, which ALL does not stand for": (GROUP, name, LITERAL, None, None, int(READ), ANY),
        "by permission": (ANY, name, ANY, None, None, ANY, int(DENY)),
        "nothing": (TOPIC, f"{name}-nowhere", LITERAL, None, None, ANY, ANY),
        "the wildcard itself": (TOPIC, "*", LITERAL, f"User:{name}", None, ANY, ANY),
        "of every user, which is a name": (TRANSACTION, name, LITERAL, "User:*", None, ANY, ANY),
    }


@secured_conversation
def rules_in_every_version(play: Play) -> None:
    for version in play.versions(CREATE):
        name = f"{play.name}-{version}-t"
        created = rules(name) + ([rule(name, USER)] if version >= _USERS_FROM else [])
        play.exchange(CREATE, version, CreateAclsRequest(created), "some")
        play.exchange(CREATE, version, CreateAclsRequest(created[:1]), "once more")
        play.exchange(CREATE, version, CreateAclsRequest([]), "none")
        for what, fields in _filters(name).items():
            play.exchange(DESCRIBE, version, DescribeAclsRequest(*fields), what)
        for what, fields in list(_filters(name).items())[6:]:
            play.exchange(DELETE, version, DeleteAclsRequest([DeleteAclsFilter(*fields)]), what)
        both = [DeleteAclsFilter(ANY, found, ANY, None, None, ANY, ANY) for found in (name, f"{name}-nowhere")]
        play.exchange(DELETE, version, DeleteAclsRequest([both[0], both[0], both[1]]), "one filter twice, and another")
        play.exchange(DELETE, version, DeleteAclsRequest([]), "nothing at all")
        play.exchange(DESCRIBE, version, DescribeAclsRequest(ANY, name, ANY, None, None, ANY, ANY), "what is left")


@secured_conversation
def rules_that_are_wrong(play: Play) -> None:
    name = f"{play.name}-t"
    for version in play.versions(CREATE):
        bad = {
            "an empty name": rule(""),
            "another cluster": rule(name, CLUSTER),
            "every cluster": rule("*", CLUSTER),
            "a prefix of the cluster": rule("kafka-", CLUSTER, PREFIXED),
            "a principal without a type": rule(name, principal="alice"),
            "an empty principal": rule(name, principal=""),
            "an empty host": rule(name, host=""),
            "a host that is none": rule(name, host="no.such.host"),
            "a pattern that only filters have": rule(name, pattern=MATCH),
            "any pattern": rule(name, pattern=ANY),
        }
        for what, row in bad.items():
            play.exchange(CREATE, version, CreateAclsRequest([row, rule(f"{name}-good")]), what, on=f"of {what}")
        for field in ("operation", "permission_type"):
            for what, number in NUMBERS.items():
                row = rule(name, **{field: number})
                play.exchange(CREATE, version, CreateAclsRequest([row]), f"{field} {what}", on=f"of {field} {what}")
        for what, number in NUMBERS.items():
            play.exchange(
                CREATE, version, CreateAclsRequest([rule(name, number)]), f"kind {what}", on=f"of kind {what}"
            )


@secured_conversation
def filters_that_are_wrong(play: Play) -> None:
    name = f"{play.name}-t"
    for version in play.versions(DESCRIBE):
        for at, what in ((0, "kind"), (2, "pattern"), (5, "operation"), (6, "permission")):
            for number in (0, 99):
                fields: list[Any] = [TOPIC, name, LITERAL, None, None, ANY, ANY]
                fields[at] = number
                note = f"{what} {number}"
                play.exchange(DESCRIBE, version, DescribeAclsRequest(*fields), note, on=f"of {note}")
                play.exchange(DELETE, version, DeleteAclsRequest([DeleteAclsFilter(*fields)]), note, on=f"and {note}")
