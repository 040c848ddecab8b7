"""The cluster that a command talks to: flags, environment and profiles resolved to brokers and client settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.client_settings import ClientSettings, settings_of, settings_of_environment, settings_of_file
from qanat.app.client.profile_file import Profile, profiles_path, read_profiles
from qanat.app.settings.environment import BOOTSTRAP_SERVERS, PROFILE
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.security import MEANINGS as SECURITY
from qanat.model.errors import InvalidSettingError

Result = TypeVar("Result")
TIMEOUT_S_MAX = 24 * 60 * 60
DEFAULT_TIMEOUT_S = 15.0
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_CLIENT_ID = "qanat-cli"


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The cluster that a command talks to, and its client settings."""

    bootstrap: str
    origin: str
    """Where the address comes from, for error messages."""
    settings: ClientSettings
    timeout_s: float | None = None
    """The profile's timeout; flags and settings come before it."""


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
    """A file with such settings, a line each, as Kafka's own tools take it; the right place for passwords."""

    def cluster(self) -> Cluster:
        """A client of the resolved cluster, not connected yet."""
        resolved = self.resolved()
        settings = resolved.settings
        timeouts = (self.timeout, settings.timeout_s, resolved.timeout_s, DEFAULT_TIMEOUT_S)
        timeout = next(one for one in timeouts if one is not None)
        if not 0 < timeout <= TIMEOUT_S_MAX:
            raise WrongArgumentError(f"--timeout {timeout:g}: write seconds, above 0 and at most {TIMEOUT_S_MAX}")
        try:
            addresses = parse_bootstrap(resolved.bootstrap)
        except ValueError as fault:
            raise InvalidSettingError(f"{resolved.origin} {resolved.bootstrap}: {fault}") from None
        return Cluster(addresses, settings.client_id or DEFAULT_CLIENT_ID, timeout, settings.security())

    def address(self) -> str:
        """The brokers of the resolved cluster, for callers that connect by themselves."""
        return self.resolved().bootstrap

    def protection(self) -> dict[str, str]:
        """TLS and SASL settings for `address`, in the names of Kafka's clients."""
        settings = self.resolved().settings
        settings.security()  # Raises before anything is started.
        return {name: value for name, value in settings.values.items() if name in SECURITY}

    def resolved(self) -> ResolvedTarget:
        """Flags, environment and profiles resolved: flags before --profile before variables before the profile file."""
        flags = settings_of(assignments(self.settings or []), "-X")
        if self.command_config is not None:
            flags = flags.over(settings_of_file(self.command_config))
        environment = settings_of_environment(os.environ)
        own = self.bootstrap if self.bootstrap is not None else flags.bootstrap
        own_origin = "--bootstrap" if self.bootstrap is not None else "bootstrap.servers"
        variable = os.environ.get(BOOTSTRAP_SERVERS) or environment.bootstrap
        if self.profile is None and own is not None:
            return ResolvedTarget(own, own_origin, flags.over(environment).without_idle(environment))
        if self.profile is None and variable:
            return ResolvedTarget(variable, BOOTSTRAP_SERVERS, flags.over(environment).without_idle(environment))
        name, profile = self._profile()
        if profile is None:
            return ResolvedTarget(DEFAULT_BOOTSTRAP, "--bootstrap", flags.over(environment).without_idle(environment))
        profile_settings = settings_of(profile.settings, f"profile {name}")
        below = profile_settings.over(environment) if self.profile is not None else environment.over(profile_settings)
        settings = flags.over(below).without_idle(environment)
        return ResolvedTarget(own or profile.bootstrap, f"profile {name}:", settings, profile.timeout)

    def _profile(self) -> tuple[str | None, Profile | None]:
        """The profile that a flag or a variable names, or the one in use."""
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
