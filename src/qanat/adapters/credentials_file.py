"""The mechanism PLAIN with names and passwords from a file: one `name:password` a line, `#` starts a comment.

The file is read once, when the broker starts.
"""

from __future__ import annotations

from qanat.model.errors import InvalidSettingError
from qanat.security.plain import Plain
from qanat.security.settings import SecuritySettings


def plain_authenticator(settings: SecuritySettings) -> Plain:
    """Makes the entry point `PLAIN`; raises `InvalidSettingError` where there are no credentials."""
    path = settings.sasl_plain_credentials_file
    if path is None:
        raise InvalidSettingError(
            "the mechanism PLAIN needs sasl.plain.credentials.file: a file with one name:password a line"
        )
    return Plain(read_credentials(path))


def read_credentials(path: str) -> dict[str, str]:
    """Names and passwords; an error names the line, never its content."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"cannot read sasl.plain.credentials.file {path}: {reason}") from None
    passwords: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, password = line.partition(":")
        name = name.strip()
        if not separator or not name or not password:
            raise InvalidSettingError(f"{path} line {number} should read name:password")
        if name in passwords:
            raise InvalidSettingError(f"{path} line {number}: the name was given before")
        passwords[name] = password
    return passwords
