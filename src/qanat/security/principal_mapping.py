r"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to a principal's name. Kafka's syntax:

    RULE:^CN=([^,]+),OU=services.*$/$1/L, RULE:^CN=([^,]+)$/$1/, DEFAULT

The first rule whose pattern matches the whole name decides; `DEFAULT` takes the name as it is. `$1` stands for a group;
`/L` and `/U` turn the result into lower or upper case.

Rule 1: a pattern matches the whole name or not at all, with or without `^` and `$`: `CN=admin` does not match
        `CN=admin,OU=guests`.
Rule 2: a name that no rule matches has no principal: its client is refused.
Rule 3: patterns are matched in linear time (RE2): the names come from clients.
"""

from __future__ import annotations

import re
from typing import Any

from qanat.model.errors import InvalidSettingError

SETTING = "ssl.principal.mapping.rules"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|([^\\$]+|.)", re.DOTALL)


class _Rule:
    """One rule: a pattern and what its matches become; the default has no pattern."""

    def __init__(self, pattern: str | None, replacement: str = "", case: str = "") -> None:
        self._pattern: Any = None if pattern is None else _compiled(pattern)
        self._parts = [(escaped or text, group) for escaped, group, text in _REFERENCE.findall(replacement)]
        self._case = case
        highest = max((int(group) for _, group in self._parts if group), default=0)
        if self._pattern is not None and highest > self._pattern.groups:
            raise InvalidSettingError(f"{SETTING}: ${highest} is no group of {pattern!r}")

    def apply(self, name: str) -> str | None:
        """The principal's name; None where the pattern does not match the whole name."""
        if self._pattern is None:
            return name
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        result = "".join((match.group(int(group)) or "") if group else text for text, group in self._parts)
        if self._case:
            return result.lower() if self._case == "L" else result.upper()
        return result


class PrincipalMapping:
    """The rules in their order."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        """Raises `InvalidSettingError` for what is no rule."""
        self._rules = list(_parsed(rules))

    def name_of(self, distinguished_name: str) -> str | None:
        """The principal's name; None where no rule matches, or where nothing is left of the name."""
        for rule in self._rules:
            if (name := rule.apply(distinguished_name)) is not None:
                return name or None
        return None


def _parsed(text: str) -> list[_Rule]:
    rules, at = list[_Rule](), 0
    while at < len(text.rstrip()):
        match = _RULE.match(text, at)
        if match is None:
            raise InvalidSettingError(
                f"{SETTING}: {text[at:].strip()!r} is no rule: write RULE:PATTERN/REPLACEMENT/, with L or U after it "
                "for lower or upper case, or DEFAULT"
            )
        rules.append(_Rule(None) if match["default"] else _Rule(match["pattern"], match["replacement"], match["case"]))
        at = match.end()
    return rules or [_Rule(None)]


def _compiled(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # Brokers without such rules start faster without it.

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.replace("\\/", "/"), options)
    except re2.error as fault:
        raise InvalidSettingError(f"{SETTING}: {pattern!r} is no pattern: {fault}") from None
