"""Redaction: documents and logs without secrets.

A value is hidden for its name (`ssl.key.password`, `token`), for its form (a private key, a bearer token, an API key, a
password in an address), and all that follows a name of a secret on a line of a log. It rather hides too much.
"""

from __future__ import annotations

import json
import re
from typing import Any

HIDDEN = "[hidden]"
_NAMES = (
    "pass(?:word|wd|phrase|code)s?|(?<![a-z])pass(?![a-z])|pwd|secrets?|tokens?|credentials?|(?:api|account|access|shared)[._-]?keys?"
    "|private[._-]?key|keystore[._-]key"
    "|jaas[\\w.-]*|authorization|cookie|session[._-]?id|signature|bearer"
)
_SECRET_NAME = re.compile(rf"(?i)(?:^|[._\- ])(?:{_NAMES})(?:$|[._\- ])|(?:{_NAMES})$")
_NO_SECRETS = frozenset({"page_token", "next_page_token", "requires_sign_in"})
_FORGOTTEN = frozenset({"metadata", "client_metadata", "assignment_metadata"})
"""What clients keep with their offsets: any text of theirs."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_FORMS = (
    (re.compile(r"(?i)\b(bearer|basic|session|digest)\s+[\w+/=.~-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\bqk_[\w-]+"), HIDDEN),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"), HIDDEN),
    (re.compile(r"(?i)(--?[\w-]*(?:password|secret|token|key)[\w-]*\s+)[^\s=:]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(://[^\s/:@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
)
_NAMED = re.compile(rf"(?i)((?:[\w.-]*[._-])?(?:{_NAMES})[\w.-]*[\"']?\s*(?:[=:]|=>|\bis\b)\s*).+")


def is_secret_name(name: str) -> bool:
    """
    >>> is_secret_name("ssl.key.password"), is_secret_name("accessToken"), is_secret_name("retention.ms")
    (True, True, False)
    """
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None


def redacted(value: Any, name: str = "") -> Any:
    """A JSON document without secrets; what is hidden keeps its place."""
    if name in _FORGOTTEN and isinstance(value, str):
        return HIDDEN if value else value
    if is_secret_name(name) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, dict):
        named = value.get("name")
        is_secret = isinstance(named, str) and is_secret_name(named)
        return {
            redacted_text(key): HIDDEN
            if is_secret and key in ("value", "default") and one is not None
            else redacted(one, key)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [redacted(one, name) for one in value]
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    r"""Text without secrets, line by line.

    >>> redacted_text("login password=hunter2 now\nfrom http://ann:pw@host/ and redis://:pw@host")
    'login password=[hidden]\nfrom http://ann:[hidden]@host/ and redis://:[hidden]@host'
    """
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    return "\n".join(_line(one) for one in text.split("\n"))


def redacted_log(text: str) -> str:
    """A log without secrets: lines of JSON stay JSON."""
    return "\n".join(_log_line(one) for one in _PRIVATE_KEY.sub(HIDDEN, text).split("\n"))


def _log_line(line: str) -> str:
    if line.startswith("{"):
        try:
            return json.dumps(redacted(json.loads(line)))
        except ValueError:
            pass  # It only looks like JSON.
    return _line(line)


def _line(line: str) -> str:
    for form, instead in _FORMS:
        line = form.sub(instead, line)
    return _NAMED.sub(rf"\1{HIDDEN}", line)
