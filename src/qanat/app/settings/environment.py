"""Settings from the environment: `QANAT_NUM_PARTITIONS=3`, and the variables of the alias table.

Variables have underscores where Kafka's names have dots, and nothing else differs, so every name has exactly one
variable. A variable with our prefix that matches no setting is an error: no other program uses the prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qanat.app.settings.aliases import BY_VARIABLE
from qanat.app.settings.faults import Faults
from qanat.app.settings.listener_names import PER_LISTENER
from qanat.app.settings.source_value import SourceValue
from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

PREFIX = "QANAT_"
CONFIG = "QANAT_CONFIG"
BOOTSTRAP_SERVERS = "QANAT_BOOTSTRAP_SERVERS"
PROFILE = "QANAT_PROFILE"
CLIENT_PREFIX = "QANAT_CLIENT_"
"""Settings of client commands (`app.client.client_settings`), which a node ignores."""
ETCD = "QANAT_ETCD"
USER_PASSWORD = "QANAT_USER_PASSWORD"
OTHERS = {
    CONFIG: "the settings file, as with --config",
    ETCD: "the program etcd, for a local cluster that starts one",
    BOOTSTRAP_SERVERS: "the broker that client commands talk to, as with --bootstrap",
    PROFILE: "the profile that client commands use, as with --profile",
    USER_PASSWORD: "the password that qanat user add and qanat user password set",
    "QANAT_PURE": "read when Qanat is built: 1 compiles nothing",
    "QANAT_PREBUILT": "read when a release is built: a folder of compiled modules",
    "QANAT_RELEASE": "read when Qanat is built: 1 fails where the core would stay interpreted",
    "QANAT_OFFLINE": "read by the tests: 1 fetches nothing",
}
"""Variables with our prefix that are not settings of a node."""


def variable_of(name: str) -> str:
    """
    >>> variable_of("num.partitions")
    'QANAT_NUM_PARTITIONS'
    """
    return PREFIX + name.upper().replace(".", "_").replace("-", "_")


def _of_listener(variable: str) -> str | None:
    """The setting of one listener: its name may have underscores of its own, so the longest setting decides.

    >>> _of_listener("QANAT_LISTENER_NAME_MY_CLIENTS_SSL_KEYSTORE_LOCATION")
    'listener.name.my_clients.ssl.keystore.location'
    """
    rest = variable.removeprefix(variable_of("listener.name."))
    for setting in sorted(PER_LISTENER, key=len, reverse=True):
        ending = variable_of(setting).removeprefix(PREFIX)
        if rest != variable and rest.endswith(f"_{ending}") and len(rest) > len(ending) + 1:
            return f"listener.name.{rest[: -len(ending) - 1].lower()}.{setting}"
    return None


def read_environment(environment: Mapping[str, str], names: Collection[str], faults: Faults) -> list[SourceValue]:
    """The settings of the environment, plain variables first: variables with our prefix come later and win."""
    plain = [
        SourceValue(variable, environment[variable], f"environment variable {variable}")
        for variable in BY_VARIABLE
        if variable in environment
    ]
    by_variable = {variable_of(name): name for name in names}
    ours: list[SourceValue] = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable.startswith(CLIENT_PREFIX) or variable in OTHERS:
            continue
        if (name := by_variable.get(variable) or _of_listener(variable)) is None:
            hint = did_you_mean(variable, [*by_variable, *OTHERS], "docs/operating/settings.md lists all of them")
            with faults:
                raise InvalidSettingError(f"unknown environment variable {variable}{hint}")
            continue
        ours.append(SourceValue(name, environment[variable], f"environment variable {variable}"))
    return [*plain, *ours]
