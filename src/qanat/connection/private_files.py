"""Files with secrets: passwords and private keys, which only their owner, and at most a group, may read."""

from __future__ import annotations

import os

from qanat.model.errors import InvalidSettingError

_OTHERS = 0o027
"""Access that such a file may not give: any to others, writing to the group."""


def require_private(path: str, setting: str) -> None:
    """Refuse a file that others have access to; one that is missing is for its reader to report."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        return
    if mode & _OTHERS:
        raise InvalidSettingError(f"{setting} {path} has mode {mode:o}, so that others have access: chmod 600 {path}")
