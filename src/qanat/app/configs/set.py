"""`qanat config set`: change settings of topics, brokers and groups."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import assignments
from qanat.app.client.target import HERE, Target, run
from qanat.app.configs.config_requests import ALTER_COLUMNS, KINDS, alter_configs, alter_sentence
from qanat.app.configs.get import Kind
from qanat.app.terminal.listing import Output, print_done


def set_settings(
    kind: Kind,
    name: str,
    settings: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    delete: Annotated[list[str] | None, Parameter(name=["--delete", "-d"], negative="")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Change settings: all of them, or none if one is refused.

        qanat config set topic orders retention.ms=3600000
        qanat config set broker 1 --delete log.retention.ms --dry-run
        qanat config set group workers share.auto.offset.reset=earliest
        qanat config set client-metrics all "metrics=*" interval.ms=30000

    Parameters
    ----------
    kind:
        `topic`, `broker`, `group` or `client-metrics`.
    name:
        The topic's, group's or subscription's name, or the broker's number. A group need not exist yet.
    settings:
        name=value, as many as needed.
    delete:
        A setting to reset to its default.
    dry_run:
        Let the broker check it, and change nothing.
    output:
        A sentence each for people, the others for programs.
    """
    changes = assignments(settings or [])
    rows = run(
        target,
        lambda cluster: alter_configs(cluster, KINDS[kind], name, changes, delete or [], is_dry_run=dry_run),
    )
    print_done(rows, ALTER_COLUMNS, output, alter_sentence)
