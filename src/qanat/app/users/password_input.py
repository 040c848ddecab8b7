"""Passwords from a prompt, a file or the environment: never from the command line, which every user of the machine
sees."""

from __future__ import annotations

import os
import stat
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.settings.environment import USER_PASSWORD

PasswordFile = Annotated[Path | None, Parameter(name="--password-file")]
_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_LONGEST = 4096


def read_password(user: str, file: Path | None) -> str:
    """The password: of the file, of the environment, or typed twice."""
    if file is not None:
        return _checked(_of_file(file), str(file))
    if os.environ.get(USER_PASSWORD):
        return _checked(os.environ[USER_PASSWORD], USER_PASSWORD)
    if not sys.stdin.isatty():
        raise WrongArgumentError(f"there is no password: give --password-file, or set {USER_PASSWORD}")
    password = getpass(f"Password of {user}: ")
    if getpass("The same again: ") != password:
        raise WrongArgumentError("the two passwords differ: nothing was changed")
    return _checked(password, "the password")


def _of_file(file: Path) -> str:
    """The first line of a file that only its owner can read."""
    try:
        with file.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & _READABLE_BY_OTHERS:
                raise WrongArgumentError(f"others can read {file}: chmod 600 {file}")
            return opened.readline(_LONGEST + 2).rstrip("\r\n")
    except UnicodeDecodeError:
        raise WrongArgumentError(f"{file} is not UTF-8") from None
    except OSError as fault:
        raise WrongArgumentError(f"cannot read {file}: {fault.strerror}") from None


def _checked(password: str, origin: str) -> str:
    if not password:
        raise WrongArgumentError(f"{origin} is empty: write the password into its first line")
    if len(password) > _LONGEST or "\0" in password:
        raise WrongArgumentError(f"{origin} is no password: it has more than {_LONGEST} characters, or a zero byte")
    return password
