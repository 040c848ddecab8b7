"""Text without passwords: what is stored of a pipeline must not show them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"
_NAMES = r"[\w.-]*(?:password|passwd|secret|token|credential|access\.key|jaas)[\w.-]*"
_PAIR = re.compile(rf"""(?i)(["']?{_NAMES}["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,}}]+)""")
_ADDRESS = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")


def without_secrets(text: str) -> str:
    """
    >>> without_secrets("options: {user: ann, password: hunter2}\\nurl: jdbc://ann:hunter2@db/shop")
    'options: {user: ann, password: ***}\\nurl: jdbc://ann:***@db/shop'
    """
    return _ADDRESS.sub(rf"\1{HIDDEN}@", _PAIR.sub(rf"\1{HIDDEN}", text))


def settings_without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """
    >>> settings_without_secrets({"lake": "/data", "spark.hadoop.fs.s3a.secret.key": "hunter2"})
    {'lake': '/data', 'spark.hadoop.fs.s3a.secret.key': '***'}
    """
    return {
        name: HIDDEN if re.fullmatch(_NAMES, name, re.IGNORECASE) else _ADDRESS.sub(rf"\1{HIDDEN}@", value)
        for name, value in settings.items()
    }
