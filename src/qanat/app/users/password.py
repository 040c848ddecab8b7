"""`qanat user password`: another password for a user."""

from __future__ import annotations

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.users.password_input import PasswordFile, read_password
from qanat.app.users.user_directory import (
    RUNNING,
    Mechanisms,
    Stored,
    UserDirectory,
    check_iterations,
    on_directory,
    set_password,
)
from qanat.security.scram import ITERATIONS_MIN

_COLUMNS = ("user", "mechanism", "done")


def password(
    user: str,
    /,
    *,
    mechanism: Mechanisms = None,
    iterations: int = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    stored: Stored = RUNNING,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Set another password. It holds for the next login; connections that are open stay.

        qanat user password alice
        qanat user password alice --password-file alice.password
        qanat user password admin --data-dir ./data         (where no one knows the old one)

    Parameters
    ----------
    user:
        Name of the user.
    mechanism:
        Only for this mechanism; for all that the user has where it is left out.
    iterations:
        How costly it is to guess the password from its verifier, 4096 to 16384.
    password_file:
        A file that only you can read, with the password in its first line.
    output:
        A sentence each for people, the others for programs.
    """
    check_iterations(iterations)
    new = read_password(user, password_file)

    async def work(directory: UserDirectory) -> list[Row]:
        there = [one for name, one in await directory.iterations() if name == user]
        wanted = list(mechanism or there)
        if not there or any(one not in there for one in wanted):
            missing = " and ".join(one for one in wanted if one not in there)
            what = f"user {user} has no {missing}" if there else f"there is no user {user}"
            raise WrongArgumentError(f"{what}: qanat user add {user} makes it")
        for one in wanted:
            await set_password(directory, user, one, new, iterations)
        return [{"user": user, "mechanism": one, "done": "set"} for one in wanted]

    print_done(
        on_directory(target, stored, work),
        _COLUMNS,
        output,
        lambda row: f"set the password of {row['user']} for {row['mechanism']}",
    )
