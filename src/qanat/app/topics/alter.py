"""`qanat topic alter`: change settings of a topic."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.configs.set import set_settings
from qanat.app.terminal.listing import Output


def alter(
    topic: str,
    settings: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    delete: Annotated[list[str] | None, Parameter(name=["--delete", "-d"], negative="")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Change settings of a topic; the change takes effect at once.

        qanat topic alter orders retention.ms=3600000 --delete segment.bytes

    Parameters
    ----------
    topic:
        Its name.
    settings:
        name=value, as many as needed.
    delete:
        A setting to reset to its default.
    dry_run:
        Let the broker check it, and change nothing.
    output:
        A sentence each for people, the others for programs.
    """
    set_settings("topic", topic, settings, delete=delete, dry_run=dry_run, output=output, target=target)
