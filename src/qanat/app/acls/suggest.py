"""`qanat acl suggest`: rules for what a dry run of the authorizer has recorded."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Annotated

import msgspec
from cyclopts import Parameter

from qanat.api.configs.dry_run_denials import NAME, DenialReport
from qanat.app.acls.acl_options import Flag, command_of, principal_of
from qanat.app.acls.acl_requests import COLUMNS, row_of
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.configs.config_requests import BROKER, describe_configs
from qanat.app.terminal.listing import Output, print_rows
from qanat.app.terminal.printable import printable
from qanat.connection.cluster import Cluster
from qanat.security.acls import Acl
from qanat.security.authorization import Operation, ResourceKind
from qanat.security.dry_run import RecordedDenial, suggested


def suggest(
    *,
    principal: str | None = None,
    everything: Annotated[Flag, Parameter(name="--all")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Print the rules that are missing for what clients did, as commands. Brokers record it in a dry run.

        qanat acl suggest
        qanat acl suggest --principal alice > rules.sh

    With authorizer.dry.run=true, brokers record what no rule allows, and let it through. Look at the rules before you
    run them: a client that did too much gets a rule for it as well.

    Parameters
    ----------
    principal:
        Only rules for this user, by name or as User:name.
    everything:
        Also rules that only describe a topic or group, which every listing asks for.
    output:
        Commands for people, the others for programs.
    """
    who = None if principal is None else principal_of(principal)
    reports = run(target, reported)
    if not reports:
        raise WrongArgumentError("no broker records denials: start them with -X authorizer.dry.run=true")
    denials = [
        RecordedDenial(one.principal, Operation[one.operation], ResourceKind[one.kind], one.name)
        for report in reports
        for one in report.denials
        if who in (None, one.principal)
    ]
    rules = suggested(denials, with_descriptions=everything)
    if output == "table":
        for line in commands_of(rules):
            print(printable(line))
    else:
        print_rows([row_of(rule) for rule in rules], COLUMNS, output)
    if dropped := sum(report.dropped for report in reports):
        print(f"{dropped} more denials were counted only: add these rules, and look again", file=sys.stderr)


async def reported(cluster: Cluster) -> list[DenialReport]:
    """The reports of all brokers that have one."""
    brokers = (await cluster.metadata([], cluster.deadline())).brokers
    found = [await describe_configs(cluster, BROKER, str(one.node_id), [NAME]) for one in brokers]
    return [msgspec.json.decode(one.value or "", type=DenialReport) for configs in found for one in configs]


def commands_of(rules: list[Acl]) -> list[str]:
    """A command for each principal and resource, with all operations."""
    lines = []
    for _, group in groupby(rules, key=lambda rule: (rule.principal, rule.kind, rule.name)):
        same = list(group)
        operations = ",".join(rule.operation.name.lower().replace("_", "-") for rule in same)
        first = same[0]
        lines.append(
            command_of("add", first).replace(
                f"--operation {first.operation.name.lower()}", f"--operation {operations}", 1
            )
        )
    return lines
