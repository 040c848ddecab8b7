"""`qanat acl add`: add rules."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.acls.acl_options import AclResources, Flag, host_of, operations_of, principal_of
from qanat.app.acls.acl_requests import COLUMNS, create, row_of
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.connection.cluster import Cluster
from qanat.security.acls import ANY, Acl, Permission


def add(
    *,
    principal: Annotated[list[str], Parameter(negative="")],
    operation: Annotated[list[str], Parameter(negative="")],
    resources: AclResources = AclResources(),  # noqa: B008 - frozen
    host: Annotated[list[str] | None, Parameter(negative="")] = None,
    deny: Flag = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Add rules: allow operations on resources to principals, or deny them. A rule that is there is fine.

        qanat acl add --principal alice --operation read --topic orders --group billing
        qanat acl add --principal alice --operation write,create --topic orders- --prefixed
        qanat acl add --principal '*' --operation all --topic secrets --deny --host 10.0.0.7

    A rule that denies wins over all that allow. Who may read, write, delete or alter a resource may describe it.

    Parameters
    ----------
    principal:
        A user, by name or as User:name; '*' for all.
    operation:
        all, read, write, create, delete, alter, describe, cluster-action, describe-configs, alter-configs,
        idempotent-write; several with commas.
    host:
        Address of the client; all where it is left out.
    deny:
        Deny, in place of allow.
    output:
        A sentence each for people, the others for programs.
    """
    permission = Permission.DENY if deny else Permission.ALLOW
    acls = [
        Acl(resource.kind, resource.name, resources.pattern, principal_of(who), host_of(where), what, permission)
        for resource in resources.required()
        for who in principal
        for where in host or [ANY]
        for what in operations_of(operation)
    ]

    async def work(cluster: Cluster) -> None:
        await create(cluster, acls)

    run(target, work)
    sentences = {tuple(row_of(acl).values()): str(acl) for acl in acls}

    def sentence(row: Row) -> str:
        return sentences[tuple(row[column] for column in COLUMNS)]

    print_done([row_of(acl) for acl in acls], COLUMNS, output, sentence)
