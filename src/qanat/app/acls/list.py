"""`qanat acl list`: the rules, all or some."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.acls.acl_options import AclResources, Flag, principal_of
from qanat.app.acls.acl_requests import COLUMNS, described, row_of
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, print_rows
from qanat.connection.cluster import Cluster
from qanat.security.acl_filters import AclFilter, FilterPattern
from qanat.security.acls import Acl


def list_acls(
    *,
    principal: str | None = None,
    resources: AclResources = AclResources(),  # noqa: B008 - frozen
    matching: Annotated[Flag, Parameter(name="--matching")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """List the rules, or those of a principal or resource.

        qanat acl list
        qanat acl list --principal alice -o json
        qanat acl list --topic orders --matching

    Parameters
    ----------
    principal:
        Only rules of this user, by name or as User:name; not those of all users.
    matching:
        Every rule that concerns the named resource: by its name, by a prefix of it, or for all.
    output:
        `table` for people, the others for programs.
    """
    filters = wanted(principal, resources, matching=matching)

    async def work(cluster: Cluster) -> list[Acl]:
        found: dict[Acl, None] = {}
        for one in filters:
            found |= dict.fromkeys(await described(cluster, one))
        return list(found)

    print_rows([row_of(acl) for acl in run(target, work)], COLUMNS, output, spare=("host",))


def wanted(principal: str | None, resources: AclResources, *, matching: bool = False) -> list[AclFilter]:
    """A filter per resource, or one for all."""
    who = None if principal is None else principal_of(principal)
    if not resources.named:
        pattern = FilterPattern.PREFIXED if resources.prefixed else FilterPattern.ANY
        return [AclFilter(principal=who, pattern=pattern)]
    pattern = FilterPattern.MATCH if matching else FilterPattern(int(resources.pattern))
    return [AclFilter(one.kind, one.name, pattern, who) for one in resources.named]
