"""Maven's repository: the mirror that this machine is set up for, or the central one."""

from __future__ import annotations

import re
from pathlib import Path

from tools.toolchains.registries import MAVEN, need

_MIRROR = re.compile(r"<mirror>.*?<url>\s*(https?://[^<\s]+)", re.DOTALL)


def need_maven(what: str) -> None:
    """Return where the repository answers; raises `MissingToolError` in three seconds where it does not."""
    settings = Path.home() / ".m2" / "settings.xml"
    mirror = _MIRROR.search(settings.read_text()) if settings.exists() else None
    need(mirror[1] if mirror else MAVEN, what)
