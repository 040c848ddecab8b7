"""`qanat doctor`: is this machine fit to run a broker, is the broker protected, and what to do if not.

`warn` means that Qanat runs, but slower or with a part missing; `fail` means that no broker should run like this, and
the command exits with 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.cluster.pid_file import read_pid_file
from qanat.app.doctor.machine_checks import (
    check_checksum,
    check_compression,
    check_free_disk,
    check_java,
    check_native_core,
    check_open_files,
    check_python,
    check_sync_latency,
    check_uvloop,
)
from qanat.app.doctor.store_checks import check_etcd
from qanat.app.doctor.stored_checks import check_stored
from qanat.app.doctor.stored_security import read_stored
from qanat.app.rules.finding import Finding
from qanat.app.rules.setup_rules import RULES, Setup
from qanat.app.rules.sqlite_checks import check_sqlite
from qanat.app.secure.secure_setup import SecureFiles
from qanat.app.secure.secure_setup import broker_settings as secure_settings
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import assignment, flag, load
from qanat.app.settings.node_settings import NodeSettings
from qanat.app.terminal.listing import Output, print_rows
from qanat.app.terminal.progress import status_line
from qanat.model.errors import QanatError

_COLUMNS = ("check", "status", "seen", "advice")


def doctor(
    *,
    data_dir: Annotated[str, Parameter(metavar="PATH")] = "data",
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)] = None,
    output: Output = "table",
) -> int:
    """Check this machine and the broker's security: say what to do about each finding.

        qanat doctor --data-dir /var/lib/qanat
        qanat doctor --config /etc/qanat/broker.yaml -X listener.security.protocol=SASL_SSL
        qanat doctor -o json

    Exits with 1 where no broker should run like this.

    Parameters
    ----------
    data_dir:
        Data directory of the broker; need not exist yet.
    config:
        Settings file of the broker; those of `qanat secure init` and of a running cluster are found by themselves.
    settings:
        Settings that the broker is started with, as often as needed: -X name=value.
    output:
        `table` for people, the others for programs.
    """
    if not data_dir:
        raise WrongArgumentError("--data-dir needs a path")
    with status_line("checking this machine: ") as report_progress:
        findings = examine(Path(data_dir), report_progress)
        report_progress("security")
        findings += examine_security(data_dir, config, settings or ())
    if output == "table":
        _print_table(findings)
    else:
        print_rows([asdict(finding) for finding in findings], _COLUMNS, output)
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def examine(data_dir: Path, report_progress: Callable[[str], None] = lambda text: None) -> list[Finding]:
    """Run every check, in the order in which an operator would fix things; reports the name of each one."""
    folder = nearest_folder(data_dir)
    checks: Sequence[tuple[str, Callable[[], Finding]]] = (
        ("Python", check_python),
        ("native parts", check_native_core),
        ("checksums", check_checksum),
        ("compression", check_compression),
        ("event loop", check_uvloop),
        ("limits", check_open_files),
        ("disk", lambda: check_free_disk(folder)),
        ("sync latency", lambda: check_sync_latency(folder)),
        ("metadata store", lambda: check_sqlite(folder)),
        ("etcd", check_etcd),
        ("Java", check_java),
    )
    findings = []
    for name, check in checks:
        report_progress(name)
        findings.append(check())
    return findings


def examine_security(data_dir: str, config: Path | None = None, assignments: Sequence[str] = ()) -> list[Finding]:
    """The checks of a broker's security, by its settings and its metadata store."""
    try:
        settings = broker_settings_of(data_dir, config, assignments)
        plan = plan_listeners(settings)
        stored = read_stored(settings)
    except (QanatError, WrongArgumentError) as fault:
        return [Finding("settings", "fail", str(fault), "Repair the setting; then qanat doctor again.")]
    setup = Setup(settings, plan, max(1, len(stored.hosts)), has_users=bool(stored.iterations))
    return [*(rule.check(setup) for rule in RULES), *check_stored(stored)]


def broker_settings_of(data_dir: str, config: Path | None, assignments: Sequence[str] = ()) -> NodeSettings:
    """The settings of a broker: given ones on top of its file; else of the cluster that runs here, or of the files that
    `qanat secure init` or `--secure` have made."""
    values: dict[str, str] = {}
    if config is None:
        running, files = read_pid_file(data_dir), SecureFiles.of(data_dir)
        made = files.folder / "broker.yaml"
        if running is not None:
            config = None if running.config is None else Path(running.config)
            values = {"data.dir": data_dir, **running.settings}
        elif made.exists():
            config = made
        else:
            values = {"data.dir": data_dir, **(secure_settings(files) if files.client.exists() else {})}
    given = [assignment(one) for one in assignments]
    named = {one.name for one in given}
    flags = [flag(name, value, f"-X {name}") for name, value in values.items() if name not in named]
    return load([*flags, *given], config, os.environ).settings


def nearest_folder(path: Path) -> Path:
    """The folder itself, or the closest one above it that exists already."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def _print_table(findings: Iterable[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    table = Table(box=None, pad_edge=False)
    for heading in ("check", "status", "seen", "what to do"):
        table.add_column(heading, no_wrap=heading in ("check", "status"))
    for finding in findings:
        colour = colours[finding.status]
        table.add_row(finding.check, f"[{colour}]{finding.status}[/]", finding.seen, finding.advice)
    Console().print(table)
