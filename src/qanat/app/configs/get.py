"""`qanat config get`: settings in force, and the source of each."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.configs.config_requests import KINDS, describe_configs
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsResourceResult

_COLUMNS = ("setting", "value", "source", "read_only", "meaning")
_SOURCES = {1: "topic", 2: "broker, changed", 3: "all brokers, changed", 4: "broker, at start", 5: "default"}
_SOURCES |= {7: "client metrics", 8: "group"}
_DEFAULT = 5
Kind = Literal["topic", "broker", "group", "client-metrics"]


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
        `topic`, `broker`, `group` or `client-metrics`.
    name:
        The topic's, group's or subscription's name, or the broker's number. A group need not exist yet.
    settings:
        Only these.
    changed:
        Only settings that differ from the default.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[DescribeConfigsResourceResult]:
        return await describe_configs(cluster, KINDS[kind], name)

    found = run(target, work)
    _check_names(settings or [], found, kind)
    wanted = [one for one in found if not settings or one.name in settings]
    rows = [_row(one) for one in wanted if not changed or one.config_source != _DEFAULT]
    columns = _COLUMNS if output != "table" else _COLUMNS[:-1]
    print_rows(rows, columns, output)


def _check_names(wanted: list[str], found: list[DescribeConfigsResourceResult], kind: Kind) -> None:
    """Raise where a wanted setting does not exist."""
    names = {one.name for one in found}
    for setting in wanted:
        if setting not in names:
            matches = get_close_matches(setting, names, n=1)
            hint = f"; did you mean {matches[0]}?" if matches else ""
            raise WrongArgumentError(f"a {kind} has no setting {setting}{hint}")


def _row(found: DescribeConfigsResourceResult) -> Row:
    return {
        "setting": found.name,
        "value": None if found.is_sensitive else found.value,
        "source": _SOURCES.get(found.config_source, "unknown"),
        "read_only": found.read_only,
        "meaning": found.documentation,
    }
