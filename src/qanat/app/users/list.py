"""`qanat user list`: users that log in with SCRAM."""

from __future__ import annotations

from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.users.user_directory import RUNNING, Stored, UserDirectory, on_directory

_COLUMNS = ("user", "mechanism", "iterations")


def list_users(*, stored: Stored = RUNNING, output: Output = "table", target: Target = HERE) -> None:
    """List users, a row for each mechanism. Neither passwords nor verifiers are shown.

        qanat user list
        qanat user list --data-dir ./data -o json

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """

    async def work(directory: UserDirectory) -> list[Row]:
        found = await directory.iterations()
        return [{"user": user, "mechanism": one, "iterations": found[user, one]} for user, one in sorted(found)]

    print_rows(on_directory(target, stored, work), _COLUMNS, output)
