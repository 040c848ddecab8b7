"""`qanat user remove`: remove users, or one of their mechanisms."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.users.user_directory import RUNNING, Mechanisms, Stored, UserDirectory, on_directory

_COLUMNS = ("user", "mechanism", "done")


def remove(
    users: Annotated[list[str], Parameter(name="user", negative="")],
    /,
    *,
    mechanism: Mechanisms = None,
    consent: Consent = UNDECIDED,
    stored: Stored = RUNNING,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Remove users: they cannot log in any more. Without --yes, only list them. Their ACLs and open connections stay.

        qanat user remove alice --yes

    Parameters
    ----------
    users:
        Names.
    mechanism:
        Only this mechanism; all where it is left out.
    output:
        A sentence each for people, the others for programs.
    """

    async def work(directory: UserDirectory) -> list[Row]:
        found = await directory.iterations()
        wanted = [(user, one) for user, one in sorted(found) if user in users and one in (mechanism or (one,))]
        for user in users:
            if user not in [name for name, _ in wanted]:
                raise WrongArgumentError(f"there is no user {user}{f' with {mechanism}' if mechanism else ''}")
        for user, one in wanted if consent.is_confirmed else ():
            await directory.remove(user, one)
        done = "removed" if consent.is_confirmed else "would remove"
        return [{"user": user, "mechanism": one, "done": done} for user, one in wanted]

    rows = on_directory(target, stored, work)
    print_done(rows, _COLUMNS, output, lambda row: f"{row['done']} {row['user']} with {row['mechanism']}")
    return 0 if consent.is_confirmed else consent.report_withheld("removed")
