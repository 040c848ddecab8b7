"""`qanat run`: run an app's handlers in worker processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.node.event_log import LogFormat, configure
from qanat.model.errors import InvalidSettingError
from qanat.telemetry.events import LogLevel


def run(
    app: str,
    /,
    *,
    workers: int = 1,
    reload: Annotated[bool, Parameter(negative="")] = False,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> int:
    """Run the handlers of an app until it is stopped.

        qanat run shop.handlers:app --workers 4
        qanat run handlers:app --reload

    Each worker is a process and a member of the handlers' groups, so that partitions are divided among them. One that
    ends is started again, after a pause that doubles. SIGTERM and Ctrl-C let running handlers finish, commit and leave
    within the app's grace; a second one does not wait.

    Parameters
    ----------
    app:
        Module and variable, as in `shop.handlers:app`.
    workers:
        Worker processes.
    reload:
        Restart workers when a Python file below the current directory changes.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events to log.
    """
    if workers < 1:
        raise InvalidSettingError(f"--workers is {workers}, but at least one is needed")
    from qanat.app.apps.supervisor import AppSupervisor
    from qanat.app.apps.worker import work

    if workers == 1 and not reload:
        return work(app, log_format, log_level)
    configure(log_format, log_level)

    async def supervise() -> int:
        arguments = [app, log_format, log_level]
        return await AppSupervisor(arguments, workers, Path.cwd() if reload else None).run()

    return asyncio.run(supervise())
