"""What every client command has in common: which broker it talks to, how long, and how it is run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from qanat.app.profiles import profiles_path, read_profiles
from qanat.app.settings.environment import BOOTSTRAP_SERVERS, PROFILE
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.model.errors import InvalidSettingError, QanatError

Result = TypeVar("Result")

TIMEOUT_S_MAX = 24 * 60 * 60
DEFAULT_TIMEOUT_S = 15.0
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class WrongArgumentError(QanatError):
    """An argument has a form or a value that the command cannot use."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Target:
    """The broker that a command talks to."""

    bootstrap: Annotated[str | None, Parameter(name=["--bootstrap", "-b", "--bootstrap-server"])] = None
    """Any broker of the cluster, host:port, or several with commas. Default: --profile, $QANAT_BOOTSTRAP_SERVERS,
    $QANAT_PROFILE, the profile in use, 127.0.0.1:9092."""
    profile: str | None = None
    """A cluster by its name: `qanat profile --help`."""
    timeout: float | None = None
    """Seconds that the cluster may take to answer; 15 unless the profile says otherwise."""

    def cluster(self) -> Cluster:
        """A client of the cluster that is meant, not connected yet."""
        bootstrap, timeout, origin = self._resolved()
        timeout = self.timeout if self.timeout is not None else timeout or DEFAULT_TIMEOUT_S
        if not 0 < timeout <= TIMEOUT_S_MAX:
            raise WrongArgumentError(f"--timeout {timeout:g}: write seconds, above 0 and at most {TIMEOUT_S_MAX}")
        try:
            return Cluster(parse_bootstrap(bootstrap), "qanat-cli", timeout)
        except ValueError as fault:
            raise InvalidSettingError(f"{origin} {bootstrap}: {fault}") from None

    def address(self) -> str:
        """The brokers that are meant, for those who connect by themselves."""
        return self._resolved()[0]

    def _resolved(self) -> tuple[str, float | None, str]:
        """Address, timeout, and who says so."""
        named = {BOOTSTRAP_SERVERS: os.environ.get(BOOTSTRAP_SERVERS), PROFILE: os.environ.get(PROFILE)}
        if self.profile is None and self.bootstrap is not None:
            return self.bootstrap, None, "--bootstrap"
        if self.profile is None and named[BOOTSTRAP_SERVERS]:
            return named[BOOTSTRAP_SERVERS] or "", None, BOOTSTRAP_SERVERS
        path = profiles_path()
        name, origin = (self.profile, "--profile") if self.profile is not None else (named[PROFILE], PROFILE)
        content = read_profiles(path)
        if not name and self.profile is None:
            name, origin = content.chosen, str(path)
        if name is None:
            return DEFAULT_BOOTSTRAP, None, "--bootstrap"
        found = content.named(name, origin)
        return self.bootstrap or found.bootstrap, found.timeout, f"profile {name}:"


HERE = Target()
"""The default of every command's `target`."""


def run(target: Target, work: Callable[[Cluster], Awaitable[Result]]) -> Result:
    """Connect, do the work, disconnect."""

    async def connected() -> Result:
        async with target.cluster() as cluster:
            return await work(cluster)

    return asyncio.run(connected())


def assignments(pairs: list[str] | tuple[str, ...]) -> dict[str, str]:
    """`name=value` arguments."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise WrongArgumentError(f"{pair!r} should read name=value")
        found[name] = value
    return found


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Consent:
    """Whether something that cannot be undone is really meant."""

    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False
    """Do it."""
    dry_run: Annotated[bool, Parameter(negative="")] = False
    """Only say what would be done."""

    def withheld(self, what: str) -> int:
        """Say that nothing was done; the exit code for it, which is a failure unless it was asked for."""
        import sys

        if self.dry_run:
            return 0
        print(f"qanat: nothing was {what}: add --yes to do it", file=sys.stderr)
        return 1


UNDECIDED = Consent()
