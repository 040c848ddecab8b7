"""`qanat acl why`: whether a principal may do something, by which rule, and what to change.

It asks a broker for the rules that concern the resource, and decides as brokers do (`security.acls`).
"""

from __future__ import annotations

from dataclasses import dataclass

from qanat.app.acls.acl_options import AclResources, command_of, host_of, operation_of, principal_of
from qanat.app.acls.acl_requests import described
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.configs.config_requests import BROKER, describe_configs
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.printable import printable
from qanat.connection.cluster import Cluster
from qanat.connection.faults import RefusedError
from qanat.security.acl_filters import AclFilter, FilterPattern
from qanat.security.acls import ANY, Acl, AclIndex, PatternType, Permission
from qanat.security.authorization import CLUSTER, Operation, Resource

_COLUMNS = ("verdict", "reason", "rule", "command")
_SUPER_USERS, _IS_OPEN = "super.users", "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a principal may do something."""

    principal: str
    host: str | None
    operation: Operation
    resource: Resource

    def __str__(self) -> str:
        resource = "the cluster" if self.resource == CLUSTER else str(self.resource)
        where = "from an address that no rule names" if self.host is None else f"from {self.host}"
        return f"{self.principal} {self.operation.name} {resource} {where}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict, its reason, the rule that decides, and the command that would change it."""

    is_allowed: bool
    reason: str
    rule: Acl | None = None
    command: str | None = None

    def row(self) -> Row:
        verdict = "allowed" if self.is_allowed else "denied"
        rule = None if self.rule is None else str(self.rule)
        return {"verdict": verdict, "reason": self.reason, "rule": rule, "command": self.command}


def why(
    *,
    principal: str,
    operation: str,
    resources: AclResources = AclResources(),  # noqa: B008 - frozen
    host: str | None = None,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Say whether a principal may do something to a resource: the rule that decides, or the one that is missing.

        qanat acl why --principal alice --operation write --topic orders
        qanat acl why --principal alice --operation read --group billing --host 10.0.0.7

    Exit codes: 0 allowed, 1 denied or unknown.

    Parameters
    ----------
    principal:
        A user, by name or as User:name; User:ANONYMOUS is every client of a listener without authentication.
    operation:
        read, write, create, delete, alter, describe and the like.
    host:
        Address of the client; an address that no rule names where it is left out.
    output:
        Sentences for people, the others for programs.
    """
    named = resources.required()
    if len(named) != 1 or resources.prefixed:
        raise WrongArgumentError("ask about one resource by its full name")
    where = None if host is None else host_of(host)
    question = Question(principal_of(principal), where, operation_of(operation), named[0])
    if question.operation is Operation.ALL or where == ANY:
        raise WrongArgumentError("ask about one operation, from one address")
    answer = run(target, lambda cluster: answered(cluster, question))
    if output == "table":
        for line in _lines(question, answer):
            print(printable(line))
    else:
        print_rows([answer.row()], _COLUMNS, output)
    return 0 if answer.is_allowed else 1


async def answered(cluster: Cluster, question: Question) -> Answer:
    resource = question.resource
    acls = await described(cluster, AclFilter(resource.kind, resource.name, FilterPattern.MATCH))
    settings = await _settings(cluster)
    if settings is not None and question.principal in settings[_SUPER_USERS].split(";"):
        return Answer(is_allowed=True, reason=f"{question.principal} is in super.users")
    answer = decided(acls, question, is_open=settings is not None and settings[_IS_OPEN] == "true")
    if settings is None:
        note = f"{answer.reason} (its settings were not shown to us: {_SUPER_USERS} may still allow it)"
        return Answer(answer.is_allowed, note, answer.rule, answer.command)
    return answer


def decided(acls: list[Acl], question: Question, *, is_open: bool) -> Answer:
    """The answer by the rules that concern the resource."""
    index = AclIndex(is_open=is_open)
    for acl in acls:
        index.add(acl)
    decision = index.decide(question.principal, question.host or "", question.operation, question.resource)
    if decision.acl is not None:
        undo = None if decision.is_allowed else command_of("remove", decision.acl)
        verb = "allows" if decision.is_allowed else "denies"
        return Answer(decision.is_allowed, f"a rule {verb} it", decision.acl, undo)
    if decision.is_allowed:
        return Answer(is_allowed=True, reason=f"no rule names the resource, and {_IS_OPEN}=true")
    missing = Acl(
        question.resource.kind,
        question.resource.name,
        PatternType.LITERAL,
        question.principal,
        ANY,
        question.operation,
        Permission.ALLOW,
    )
    return Answer(is_allowed=False, reason="no rule allows it", command=command_of("add", missing))


async def _settings(cluster: Cluster) -> dict[str, str] | None:
    """The settings of a broker that decide before any rule; None where we may not see them."""
    broker = (await cluster.metadata([], cluster.deadline())).brokers[0]
    try:
        found = {one.name: one.value or "" for one in await describe_configs(cluster, BROKER, str(broker.node_id))}
    except RefusedError:
        return None
    return {name: found.get(name, "") for name in (_SUPER_USERS, _IS_OPEN)}


def _lines(question: Question, answer: Answer) -> list[str]:
    lines = [f"{'ALLOWED' if answer.is_allowed else 'DENIED'}: {question}", f"  because {answer.reason}"]
    if answer.rule is not None:
        lines.append(f"  the rule: {answer.rule}")
    if answer.command is not None:
        verb = "to allow it" if answer.rule is None else "to remove that rule"
        lines.append(f"  {verb}: {answer.command}")
    return lines
