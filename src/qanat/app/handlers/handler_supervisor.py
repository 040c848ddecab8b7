"""All handlers of one broker: a process per app and worker, from the broker's start to its stop.

`async with HandlerSupervisor(...)`: workers start beside the broker, which does not wait for them; they end before it
does, so that what they have finished is committed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Self

from qanat.app.handlers.worker_process import Launch, WorkerProcess
from qanat.app.settings.environment import BOOTSTRAP_SERVERS, CLIENT_PREFIX, PREFIX
from qanat.app.settings.handler_names import app_names
from qanat.app.settings.handler_settings import HandlerSettings
from qanat.telemetry.events import log_event
from qanat.telemetry.handler_apps import HandlerApp, HandlerProcess


class HandlerSupervisor:
    """The workers of all apps."""

    def __init__(
        self,
        settings: HandlerSettings,
        bootstrap_servers: str,
        environment: Mapping[str, str],
        log: tuple[str, str] = ("text", "info"),
    ) -> None:
        """`bootstrap_servers` is what `App()` connects to; `log` has the form and the level of workers' log events."""
        self._settings = settings
        self._environment = _environment(environment, bootstrap_servers)
        self._log = log
        self._targets = app_names(settings.handlers_apps)
        self.apps = [
            HandlerApp(name, [HandlerProcess(number + 1) for number in range(settings.handlers_workers)])
            for name in self._targets
        ]
        self._processes: list[WorkerProcess] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for app in self.apps:
            launch = self._launch(self._targets[app.name])
            for worker in app.workers:
                process = WorkerProcess(app, worker, launch)
                self._processes.append(process)
                self._tasks.append(asyncio.create_task(process.keep(), name=f"{app.name} worker {worker.number}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all workers, and kill those that outlast `handlers.shutdown.timeout.ms`."""
        if not self._tasks:
            return
        for process in self._processes:
            process.stop()
        timeout_s = self._settings.handlers_shutdown_timeout_ms / 1000
        late = (await asyncio.wait(self._tasks, timeout=timeout_s))[1]
        if late:
            names = ", ".join(sorted(one.get_name() for one in late))
            log_event("handlers are killed: they outlast the broker's stop", level="warning", workers=names)
            for process in self._processes:
                process.kill()
        for task in self._tasks:
            await task

    def _launch(self, target: str) -> Launch:
        settings = self._settings
        limits = (settings.handlers_memory_max_bytes, settings.handlers_shutdown_timeout_ms)
        return Launch(
            [target, *self._log, *map(str, limits), str(os.getpid())],
            self._environment,
            settings.handlers_directory,
            settings.handlers_stall_timeout_ms / 1000,
        )


def _environment(environment: Mapping[str, str], bootstrap_servers: str) -> dict[str, str]:
    """The variables of workers: the broker's without its own settings, which may be secrets."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIX) or name.startswith(CLIENT_PREFIX)
    }
    return kept | {BOOTSTRAP_SERVERS: bootstrap_servers}
