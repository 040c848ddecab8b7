"""`qanat config check`: a broker's settings without starting it; all errors at once, each with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.rules.setup_rules import Setup, refusals
from qanat.app.settings.environments import SETTING, Environment
from qanat.app.settings.faults import Faults
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import Loaded, assignment, examine, flag
from qanat.app.settings.source_value import SourceValue
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("kind", "text")


def check(
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    environment: Annotated[Environment | None, Parameter(name=["--environment", "--profile"])] = None,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    output: Output = "table",
) -> int:
    """Check the settings of a broker without starting it: file, environment variables and -X together.

        qanat config check --config /etc/qanat/broker.yaml
        qanat config check --config broker.yaml --environment production
        qanat config check -X listeners=SASL_SSL://0.0.0.0:9092

    All errors are shown at once, each with the file and line, variable or flag that it comes from; then what the
    environment refuses. Nothing is written, and no port is opened. Exits with 1 where a broker would not start.

    Parameters
    ----------
    config:
        Settings file: YAML, or Kafka's server.properties.
    environment:
        The environment to check for: `dev`, `staging` or `production`; else the one of the settings.
    settings:
        Settings that the broker is started with, as often as needed: -X name=value.
    output:
        `table` for people, the others for programs.
    """
    faults = Faults(collects=True)
    given: list[SourceValue] = []
    for one in settings or ():
        with faults:
            given.append(assignment(one))
    if environment is not None:
        given = [*(one for one in given if one.name != SETTING), flag(SETTING, environment, "--environment")]
    rows = examined(given, config, faults)
    if output == "table":
        _print_lines(rows)
    else:
        print_rows(rows, _COLUMNS, output)
    return 1 if any(row["kind"] in ("error", "refused") for row in rows) else 0


def examined(given: list[SourceValue], config: Path | None, faults: Faults) -> list[Row]:
    """Everything there is to say about these settings."""
    loaded = examine(given, config, os.environ, faults)
    plan = None
    if loaded is not None and not faults.found:
        with faults:
            plan = plan_listeners(loaded.settings)
    rows: list[Row] = [{"kind": "error", "text": _placed(one, loaded)} for one in faults.found]
    if loaded is None:
        return rows
    name = loaded.settings.environment
    if plan is not None and name != "dev":
        kind = "refused" if name == "production" else "warning"
        rows += [{"kind": kind, "text": one} for one in refusals(Setup(loaded.settings, plan), loaded.values)]
    rows += [{"kind": "notice", "text": one} for one in loaded.notices]
    if not any(row["kind"] in ("error", "refused") for row in rows):
        rows.append({"kind": "ok", "text": f"{len(loaded.values)} settings, environment {name}"})
    return rows


def _placed(fault: str, loaded: Loaded | None) -> str:
    """An error with the place of the settings that it names, where it does not name the place itself."""
    values = {} if loaded is None else loaded.values
    places = {one.origin: None for name, one in values.items() if name in _names(fault) and one.origin not in fault}
    is_placed = any(one.origin in fault for one in values.values())
    return fault if is_placed or not places else f"{fault} ({'; '.join(places)})"


def _names(fault: str) -> set[str]:
    return {word.strip("`'\",:;()=") for word in fault.replace("=", " ").split()}


def _print_lines(rows: list[Row]) -> None:
    for row in rows:
        print(f"{row['kind']:<8} {row['text']}")
