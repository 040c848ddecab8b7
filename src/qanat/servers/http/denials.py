"""Problem documents of denied requests: who may not do what to which resource, and the rule that would allow it."""

from __future__ import annotations

from shlex import quote

from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.servers.http.caller import HttpCaller
from qanat.servers.http.problems import Problem

_DENIALS = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


_MEANT = {
    "produce": Operation.WRITE,
    "produce_to_topic": Operation.WRITE,
    "consume": Operation.READ,
    "read_topic": Operation.READ,
    "stream_topic": Operation.READ,
    "websocket_topic": Operation.READ,
    "add_partitions": Operation.ALTER,
    "delete_topic": Operation.DELETE,
    "delete_records": Operation.DELETE,
}
"""What HTTP operations do to their topic. They look it up first, and a right to do this is a right to look it up."""


def with_denial(problem: Problem, caller: HttpCaller | None, http_operation: str) -> Problem:
    """The problem with what the authorizer denied, where it is about that."""
    if problem.error not in _DENIALS or caller is None or caller.last_denial is None:
        return problem
    operation, kind, name = caller.last_denial
    if operation is Operation.DESCRIBE and kind is ResourceKind.TOPIC:
        operation = _MEANT.get(http_operation, operation)
    of = "the cluster" if kind is ResourceKind.CLUSTER else f"{kind.name.lower().replace('_', ' ')} {name!r}"
    option = f"--{kind.name.lower().replace('_', '-')}"
    resource = option if kind is ResourceKind.CLUSTER else f"{option} {quote(name)}"
    command = (
        f"qanat acl add --principal {quote(str(caller.principal))} --operation {operation.name.lower()} {resource}"
    )
    detail = f"{problem.detail}; {caller.principal} may not {operation.name} {of}. To allow it: {command}"
    more = {
        "principal": str(caller.principal),
        "operation": operation.name,
        "resource_type": kind.name,
        "resource": name,
    }
    return Problem(problem.status, detail, error=problem.error, headers=problem.headers, **{**problem.more, **more})
