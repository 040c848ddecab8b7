"""Settings of handlers in the broker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from qanat.model.settings import NotNegative, Positive, Settings


class HandlerSettings(Settings, frozen=True):
    """Apps of `qanat.client` that the broker runs in processes of their own."""

    handlers_apps: str = ""
    """Apps to run, separated by commas: `module:variable`, as in `qanat run`, or an installed entry point of the group
    `qanat.handlers`."""
    handlers_directory: str | None = None
    """Directory that modules are imported from, and working directory of their processes; by default the broker's."""
    handlers_workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes of each app."""
    handlers_memory_max_bytes: NotNegative = 1 << 30
    """Memory of a process, without mapped files; a handler that needs more gets a MemoryError. 0: no limit."""
    handlers_stall_timeout_ms: Positive = 30_000
    """A process that reports nothing for so long, its start included, is killed and started again."""
    handlers_shutdown_timeout_ms: NotNegative = 10_000
    """How long handlers may take to finish and commit when the broker stops; then they are killed."""
