"""What every client command has in common: which broker it talks to, how long, and how it is run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from qanat.app.client_settings import ClientSettings, settings_of, settings_of_environment, settings_of_file
from qanat.app.profiles import Profile, profiles_path, read_profiles
from qanat.app.settings.environment import BOOTSTRAP_SERVERS, PROFILE
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.security import MEANINGS as SECURITY
from qanat.model.errors import InvalidSettingError, QanatError

Result = TypeVar("Result")

TIMEOUT_S_MAX = 24 * 60 * 60
DEFAULT_TIMEOUT_S = 15.0
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_CLIENT_ID = "qanat-cli"


class WrongArgumentError(QanatError):
    """An argument has a form or a value that the command cannot use."""


@dataclass(frozen=True, slots=True)
class Meant:
    """The cluster that a command is to talk to, and how."""

    bootstrap: str
    origin: str
    """Who says so, for complaints."""
    settings: ClientSettings
    timeout_s: float | None = None
    """What a profile says; flags and settings come before it."""


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
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="")] = None
    """A setting in the names of Kafka's clients, as often as needed: -X security.protocol=SSL. `-X list` shows all."""
    command_config: Annotated[str | None, Parameter(name=["--command-config", "-F"])] = None
    """A file with such settings, a line each, as Kafka's own tools take it; passwords are better off there."""

    def cluster(self) -> Cluster:
        """A client of the cluster that is meant, not connected yet."""
        meant = self.meant()
        settings = meant.settings
        timeouts = (self.timeout, settings.timeout_s, meant.timeout_s, DEFAULT_TIMEOUT_S)
        timeout = next(one for one in timeouts if one is not None)
        if not 0 < timeout <= TIMEOUT_S_MAX:
            raise WrongArgumentError(f"--timeout {timeout:g}: write seconds, above 0 and at most {TIMEOUT_S_MAX}")
        try:
            addresses = parse_bootstrap(meant.bootstrap)
        except ValueError as fault:
            raise InvalidSettingError(f"{meant.origin} {meant.bootstrap}: {fault}") from None
        return Cluster(addresses, settings.client_id or DEFAULT_CLIENT_ID, timeout, settings.security())

    def address(self) -> str:
        """The brokers that are meant, for those who connect by themselves."""
        return self.meant().bootstrap

    def protection(self) -> dict[str, str]:
        """What `address` needs besides, in the names of Kafka's clients: TLS and SASL."""
        settings = self.meant().settings
        settings.security()  # What is wrong with them is said before anything is started.
        return {name: value for name, value in settings.values.items() if name in SECURITY}

    def meant(self) -> Meant:
        """What flags, environment and profiles come to: flags before --profile before variables before the file."""
        flags = settings_of(assignments(self.settings or []), "-X")
        if self.command_config is not None:
            flags = flags.over(settings_of_file(self.command_config))
        around = settings_of_environment(os.environ)
        own = self.bootstrap if self.bootstrap is not None else flags.bootstrap
        own_origin = "--bootstrap" if self.bootstrap is not None else "bootstrap.servers"
        variable = os.environ.get(BOOTSTRAP_SERVERS) or around.bootstrap
        if self.profile is None and own is not None:
            return Meant(own, own_origin, flags.over(around).without_idle(around))
        if self.profile is None and variable:
            return Meant(variable, BOOTSTRAP_SERVERS, flags.over(around).without_idle(around))
        name, profile = self._profile()
        if profile is None:
            return Meant(DEFAULT_BOOTSTRAP, "--bootstrap", flags.over(around).without_idle(around))
        its = settings_of(profile.settings, f"profile {name}")
        below = its.over(around) if self.profile is not None else around.over(its)
        settings = flags.over(below).without_idle(around)
        return Meant(own or profile.bootstrap, f"profile {name}:", settings, profile.timeout)

    def _profile(self) -> tuple[str | None, Profile | None]:
        """The profile that is named, by a flag or a variable, or in use."""
        path = profiles_path()
        content = read_profiles(path)
        name, origin = (self.profile, "--profile") if self.profile is not None else (os.environ.get(PROFILE), PROFILE)
        if not name and self.profile is None:
            name, origin = content.chosen, str(path)
        return name, None if name is None else content.named(name, origin)


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

    yes: Annotated[bool, Parameter(name=["--yes", "-y", "--execute"], negative="")] = False
    """Do it."""
    dry_run: Annotated[bool, Parameter(negative="")] = False
    """Only say what would be done."""

    @property
    def is_given(self) -> bool:
        return self.yes and not self.dry_run

    def withheld(self, what: str) -> int:
        """Say that nothing was done; the exit code for it, which is a failure unless it was asked for."""
        import sys

        if self.dry_run:
            return 0
        print(f"qanat: nothing was {what}: add --yes to do it", file=sys.stderr)
        return 1


UNDECIDED = Consent()
