"""The mechanism PLAIN with names and passwords from files: one `name:password` a line, `#` starts a comment.

Rule: a file that others may read is refused.
"""

from __future__ import annotations

from qanat.connection.private_files import require_private
from qanat.model.errors import InvalidSettingError
from qanat.security.plain import Plain
from qanat.security.settings import SecuritySettings

_SETTING = "sasl.plain.credentials.file"


class PlainFile(Plain):
    """PLAIN whose passwords are read again by `reload`: for clients that authenticate from then on."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        super().__init__({})
        self.reload()

    def reload(self) -> None:
        """Read the files; raises `InvalidSettingError`, and keeps what was read before, where one cannot be used."""
        passwords: dict[str, str] = {}
        for path in self._paths:
            for name, password in read_credentials(path).items():
                if name in passwords:
                    raise InvalidSettingError(f"{path}: another file has a password for the same name")
                passwords[name] = password
        self._passwords = passwords


def plain_authenticator(settings: SecuritySettings) -> PlainFile:
    """Makes the entry point `PLAIN`; raises `InvalidSettingError` where there are no credentials."""
    path = settings.sasl_plain_credentials_file
    if path is None:
        raise InvalidSettingError(f"the mechanism PLAIN needs {_SETTING}: a file with one name:password a line")
    return PlainFile(path)


def read_credentials(path: str, setting: str = _SETTING) -> dict[str, str]:
    """Names and passwords; an error names the line, never its content."""
    require_private(path, setting)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"cannot read {setting} {path}: {reason}") from None
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
