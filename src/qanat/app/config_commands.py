"""`qanat config`: settings of topics, brokers and groups in force, where each comes from, and how to change them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.configs import ALTER_COLUMNS, KINDS, alter_configs, alter_sentence, describe_configs
from qanat.app.session import HERE, Target, WrongArgumentError, assignments, run
from qanat.app.terminal.listing import Output, Row, print_done, print_rows
from qanat.connection.cluster import Cluster
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsResourceResult

_COLUMNS = ("setting", "value", "source", "read_only", "meaning")
_SOURCES = {1: "topic", 2: "broker, changed", 3: "all brokers, changed", 4: "broker, at start", 5: "default"}
_SOURCES |= {8: "group"}
_DEFAULT = 5

Kind = Literal["topic", "broker", "group"]


def get(
    kind: Kind,
    name: str,
    settings: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    changed: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Show settings in force.

        qanat config get topic orders
        qanat config get broker 1 log.retention.ms

    Parameters
    ----------
    kind:
        `topic`, `broker` or `group`.
    name:
        The topic's or group's name, or the broker's number. A group need not be there yet.
    settings:
        Only these.
    changed:
        Only what is not the default.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[DescribeConfigsResourceResult]:
        return await describe_configs(cluster, KINDS[kind], name)

    found = run(target, work)
    _complain(settings or [], found, kind)
    wanted = [one for one in found if not settings or one.name in settings]
    rows = [_row(one) for one in wanted if not changed or one.config_source != _DEFAULT]
    columns = _COLUMNS if output != "table" else _COLUMNS[:-1]
    print_rows(rows, columns, output)


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
    """Change settings; all of them or, where one is refused, none.

        qanat config set topic orders retention.ms=3600000
        qanat config set broker 1 --delete log.retention.ms --dry-run
        qanat config set group workers share.auto.offset.reset=earliest

    Parameters
    ----------
    kind:
        `topic`, `broker` or `group`.
    name:
        The topic's or group's name, or the broker's number. A group need not be there yet.
    settings:
        name=value, as many as needed.
    delete:
        A setting that is to have its default again.
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


def _complain(wanted: list[str], found: list[DescribeConfigsResourceResult], kind: Kind) -> None:
    """A setting that was asked for and is not there was misspelled."""
    names = {one.name for one in found}
    for setting in wanted:
        if setting not in names:
            near = get_close_matches(setting, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise WrongArgumentError(f"a {kind} has no setting {setting}{hint}")


def _row(found: DescribeConfigsResourceResult) -> Row:
    return {
        "setting": found.name,
        "value": None if found.is_sensitive else found.value,
        "source": _SOURCES.get(found.config_source, "unknown"),
        "read_only": found.read_only,
        "meaning": found.documentation,
    }
