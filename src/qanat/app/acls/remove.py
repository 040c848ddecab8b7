"""`qanat acl remove`: remove the rules that a filter names."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from qanat.app.acls.acl_options import AclResources, Flag, host_of, operations_of
from qanat.app.acls.acl_requests import COLUMNS, delete, described, row_of
from qanat.app.acls.list import wanted
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.connection.cluster import Cluster
from qanat.security.acls import Acl, Permission


def remove(
    *,
    principal: str | None = None,
    operation: Annotated[list[str] | None, Parameter(negative="")] = None,
    resources: AclResources = AclResources(),  # noqa: B008 - frozen
    host: str | None = None,
    deny: Flag = False,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Remove rules: those that fit all that is given. Without --yes, only list them.

        qanat acl remove --principal alice --operation write --topic orders --yes
        qanat acl remove --principal alice                          (lists all rules of alice)

    Parameters
    ----------
    principal:
        A user, by name or as User:name.
    operation:
        An operation of a rule; several with commas.
    host:
        Address that a rule is limited to, or '*'.
    deny:
        Only rules that deny.
    output:
        A sentence each for people, the others for programs.
    """
    if principal is None and not resources.named:
        raise WrongArgumentError("name the rules: --principal, --topic, --group, --transactional-id or --cluster")
    where = None if host is None else host_of(host)
    permission = Permission.DENY if deny else None
    filters = [
        replace(one, host=where, permission=permission, operation=what)
        for one in wanted(principal, resources)
        for what in (operations_of(operation) if operation else [None])
    ]

    async def work(cluster: Cluster) -> list[Acl]:
        found: dict[Acl, None] = {}
        for one in filters:
            found |= dict.fromkeys(await described(cluster, one))
        if consent.is_confirmed and found:
            await delete(cluster, list(found))
        return list(found)

    acls = run(target, work)
    if not acls:
        raise WrongArgumentError("there is no such rule: qanat acl list shows what there is")
    done = "removed" if consent.is_confirmed else "would remove"
    sentences = {tuple(row_of(acl).values()): f"{done} {acl}" for acl in acls}

    def sentence(row: Row) -> str:
        return sentences[tuple(row[column] for column in COLUMNS)]

    print_done([row_of(acl, done=done) for acl in acls], (*COLUMNS, "done"), output, sentence)
    return 0 if consent.is_confirmed else consent.report_withheld("removed")
