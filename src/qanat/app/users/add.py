"""`qanat user add`: a new user that logs in with SCRAM."""

from __future__ import annotations

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.users.password_input import PasswordFile, read_password
from qanat.app.users.user_directory import (
    BOTH,
    RUNNING,
    Mechanisms,
    Stored,
    UserDirectory,
    check_iterations,
    on_directory,
    set_password,
)
from qanat.security.scram import ITERATIONS_MIN

COLUMNS = ("user", "mechanism", "done")


def add(
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
    """Add a user that logs in with SCRAM. The password comes from a prompt, a file, or $QANAT_USER_PASSWORD.

        qanat user add alice
        qanat user add alice --password-file alice.password -X security.protocol=SASL_PLAINTEXT ...
        qanat user add admin --data-dir ./data              (before the first start of the broker)

    Brokers keep a verifier: with it they check the password, and do not know it.

    Parameters
    ----------
    user:
        Name of the user; rules call it User:name.
    mechanism:
        SCRAM-SHA-256 or SCRAM-SHA-512; both where it is left out.
    iterations:
        How costly it is to guess the password from its verifier, 4096 to 16384.
    password_file:
        A file that only you can read, with the password in its first line.
    output:
        A sentence each for people, the others for programs.
    """
    check_iterations(iterations)
    if not user:
        raise WrongArgumentError("a user needs a name")
    password = read_password(user, password_file)

    async def work(directory: UserDirectory) -> list[Row]:
        there = [one for name, one in await directory.iterations() if name == user]
        wanted = list(mechanism or BOTH)
        if taken := [one for one in wanted if one in there]:
            raise WrongArgumentError(
                f"user {user} is there, with {' and '.join(taken)}: qanat user password {user} sets another password"
            )
        for one in wanted:
            await set_password(directory, user, one, password, iterations)
        return [{"user": user, "mechanism": one, "done": "added"} for one in wanted]

    print_done(on_directory(target, stored, work), COLUMNS, output, sentence)


def sentence(row: Row) -> str:
    return f"{row['done']} {row['user']} with {row['mechanism']}"
