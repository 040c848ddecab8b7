"""Administration of users (SCRAM) and of rules (ACLs), for those whom rules allow it."""

from __future__ import annotations

import asyncio
import secrets
from enum import IntEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from qanat.api.security.scram_mechanisms import NAMES, NUMBERS
from qanat.model.error_codes import ErrorCode
from qanat.security.acls import PatternType, Permission
from qanat.security.authorization import Operation as AclOperation
from qanat.security.authorization import ResourceKind
from qanat.security.scram import ITERATIONS_MIN, SALT_BYTES, salted_password
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import PageQuery, page_of
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from qanat.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from qanat.wire.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from qanat.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from qanat.wire.kafka.registry import ApiKey

Name = Annotated[str, Meta(min_length=1, max_length=255)]
_ANY = 1
"""A filter that matches everything."""


class UserView(msgspec.Struct):
    """A user that logs in with SCRAM."""

    user: str
    mechanisms: list[str]


class UserPage(msgspec.Struct):
    """Some users."""

    users: list[UserView]
    next_page_token: str | None


class PasswordToSet(RequestBody, frozen=True):
    """A user's new password."""

    password: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Brokers keep a verifier of it, for both SCRAM mechanisms."""


class UserChanged(msgspec.Struct):
    """What was done."""

    user: str
    done: Literal["password set", "removed"]


class Rule(RequestBody, frozen=True):
    """A rule: who may, or may not, do what, to what."""

    resource: Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
    name: Name
    """Of the resource; `*` is every one of its kind, `kafka-cluster` the cluster."""
    principal: Name
    """Such as `User:alice`; `User:*` is everyone."""
    operation: Literal[
        "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs",
        "alter_configs", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit",
    ]  # fmt: skip
    permission: Literal["allow", "deny"] = "allow"
    pattern: Literal["literal", "prefixed"] = "literal"
    """Whether `name` is the name, or what names begin with."""
    host: Name = "*"
    """An address; `*` is every one."""


class RulePage(msgspec.Struct):
    """Rules."""

    rules: list[Rule]
    next_page_token: str | None


class RulesQuery(PageQuery, frozen=True):
    """Which rules."""

    principal: str | None = None
    """Only rules of this principal, such as `User:alice`."""
    search: str | None = None
    """Only rules whose principal or resource contains this, whatever the case."""


class RulesChanged(msgspec.Struct):
    """What was done."""

    done: Literal["created", "deleted"]
    rules: int


class WhoAmI(msgspec.Struct):
    """The caller as this broker sees it."""

    principal: str
    requires_sign_in: bool
    authorizes: bool
    """Whether rules decide; otherwise every client may do everything."""


async def list_users(exchange: Exchange) -> UserPage:
    response: DescribeUserScramCredentialsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(None)
    )
    check(response.error_code, "users", response.error_message)
    rows = [
        UserView(row.user, sorted(NAMES[one.mechanism] for one in row.credential_infos if one.mechanism in NAMES))
        for row in response.results
    ]
    return UserPage(*page_of(rows, lambda one: one.user, exchange.query))


async def set_password(exchange: Exchange) -> UserChanged:
    user, wanted = exchange.path["user"], exchange.body
    changes = []
    for mechanism, number in NUMBERS.items():
        salt = secrets.token_bytes(SALT_BYTES)
        salted = await asyncio.to_thread(salted_password, mechanism, wanted.password, salt, ITERATIONS_MIN)
        changes.append(ScramCredentialUpsertion(user, number, ITERATIONS_MIN, salt, salted))
    # A request may change a user once.
    for change in changes:
        await _alter(exchange, user, AlterUserScramCredentialsRequest([], [change]))
    return UserChanged(user, "password set")


async def remove_user(exchange: Exchange) -> UserChanged:
    user = exchange.path["user"]
    missing: Problem | None = None
    removed = 0
    for number in NUMBERS.values():
        try:
            await _alter(exchange, user, AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, number)], []))
            removed += 1
        except Problem as problem:
            if problem.error is not ErrorCode.RESOURCE_NOT_FOUND:
                raise
            missing = problem
    if not removed and missing is not None:
        raise missing
    return UserChanged(user, "removed")


async def _alter(exchange: Exchange, user: str, request: AlterUserScramCredentialsRequest) -> None:
    response: AlterUserScramCredentialsResponse = await exchange.context.gateway.call(
        exchange.caller, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request
    )
    for row in response.results:
        check(row.error_code, f"user {user}", row.error_message)


async def list_rules(exchange: Exchange) -> RulePage:
    query: RulesQuery = exchange.query
    request = DescribeAclsRequest(_ANY, None, _ANY, query.principal, None, _ANY, _ANY)
    response: DescribeAclsResponse = await exchange.context.gateway.call(exchange.caller, ApiKey.DESCRIBE_ACLS, request)
    check(response.error_code, "rules", response.error_message)
    rows = [
        Rule(
            _word(ResourceKind, resource.resource_type),
            resource.resource_name,
            row.principal,
            _word(AclOperation, row.operation),
            _word(Permission, row.permission_type),
            _word(PatternType, resource.pattern_type),
            row.host,
        )
        for resource in response.resources
        for row in resource.acls
    ]
    if query.search is not None:
        text = query.search.lower()
        rows = [row for row in rows if text in row.principal.lower() or text in row.name.lower()]
    return RulePage(*page_of(rows, _place, query))


def _word(kind: type[IntEnum], number: int) -> Any:
    return kind(number).name.lower()


def _place(row: Rule) -> str:
    """Where a rule is in the listing: no two have the same place."""
    what = f"{row.resource}\n{row.name}\n{row.pattern}\n{row.operation}"
    return f"{row.principal}\n{what}\n{row.permission}\n{row.host}"


def _numbers(rule: Rule) -> tuple[int, str, int, str, str, int, int]:
    return (
        ResourceKind[rule.resource.upper()],
        rule.name,
        PatternType[rule.pattern.upper()],
        rule.principal,
        rule.host,
        AclOperation[rule.operation.upper()],
        Permission[rule.permission.upper()],
    )


async def create_rule(exchange: Exchange) -> RulesChanged:
    request = CreateAclsRequest([AclCreation(*_numbers(exchange.body))])
    response: CreateAclsResponse = await exchange.context.gateway.call(exchange.caller, ApiKey.CREATE_ACLS, request)
    for row in response.results:
        check(row.error_code, "the rule", row.error_message)
    return RulesChanged("created", 1)


async def delete_rule(exchange: Exchange) -> RulesChanged:
    request = DeleteAclsRequest([DeleteAclsFilter(*_numbers(exchange.body))])
    response: DeleteAclsResponse = await exchange.context.gateway.call(exchange.caller, ApiKey.DELETE_ACLS, request)
    count = 0
    for row in response.filter_results:
        check(row.error_code, "the rule", row.error_message)
        count += len(row.matching_acls)
    if not count:
        raise Problem(404, "there is no such rule; GET /api/v1/acls lists them", error=ErrorCode.RESOURCE_NOT_FOUND)
    return RulesChanged("deleted", count)


async def who_am_i(exchange: Exchange) -> WhoAmI:
    context = exchange.context
    return WhoAmI(
        str(exchange.caller.principal), context.authentication.is_required, context.gateway.security is not None
    )


OPERATIONS = (
    Operation("GET", "/api/v1/whoami", who_am_i, "Who the caller is", "security", answer=WhoAmI),
    Operation("GET", "/api/v1/users", list_users, "List users", "security", query=PageQuery, answer=UserPage),
    Operation(
        "PUT",
        "/api/v1/users/{user}",
        set_password,
        "Add a user that logs in with SCRAM, or set its password",
        "security",
        body=PasswordToSet,
        answer=UserChanged,
    ),
    Operation("DELETE", "/api/v1/users/{user}", remove_user, "Remove a user", "security", answer=UserChanged),
    Operation("GET", "/api/v1/acls", list_rules, "List rules", "security", query=RulesQuery, answer=RulePage),
    Operation(
        "POST", "/api/v1/acls", create_rule, "Create a rule", "security", body=Rule, answer=RulesChanged, status=201
    ),
    Operation("DELETE", "/api/v1/acls", delete_rule, "Delete a rule", "security", body=Rule, answer=RulesChanged),
)
