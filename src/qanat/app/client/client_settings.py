"""Client settings in the names of Kafka's and librdkafka's clients: `-X name=value`.

They also come from a Java properties file (`--command-config`), from a profile, or from the environment
(`QANAT_CLIENT_SASL_PASSWORD`), where no list of processes shows them.

Rule 1: an unknown name is an error that suggests the nearest one. In a file, which other programs share, it is ignored.
Rule 2: secrets are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from qanat.app.settings.environment import CLIENT_PREFIX
from qanat.connection.security import MEANINGS as SECURITY
from qanat.connection.security import Security, security_of
from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

Acks = Literal["all", "1", "0"]
CompressionName = Literal["none", "gzip", "snappy", "lz4", "zstd"]

MEANINGS: Mapping[str, str] = {
    "bootstrap.servers": "any broker of the cluster, host:port, or several with commas; as --bootstrap",
    "metadata.broker.list": "the same, in librdkafka's spelling",
    "client.id": "this client's name in the brokers' logs and quotas: qanat-cli",
    "request.timeout.ms": "how long the cluster may take to answer; as --timeout",
    "socket.timeout.ms": "the same, in librdkafka's spelling",
    "acks": "produce: all, 1 or 0; as --acks",
    "request.required.acks": "the same, in librdkafka's spelling",
    "compression.type": "produce: none, gzip, snappy, lz4 or zstd; as --compression",
    "compression.codec": "the same, in librdkafka's spelling",
    "isolation.level": "consume: read_committed or read_uncommitted; as --committed-only",
    "group.id": "consume: as --group",
    "auto.offset.reset": "consume: earliest or latest, where --from does not say where to begin",
    "fetch.max.bytes": "consume: bytes of one answer at most",
    "max.partition.fetch.bytes": "consume: bytes of one partition in one answer at most",
    "fetch.max.wait.ms": "consume: how long a broker may wait for more to come",
    **SECURITY,
}
"""Every setting with its meaning."""
_OTHER_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "socket.timeout.ms": "request.timeout.ms",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "sasl.mechanisms": "sasl.mechanism",
}
"""librdkafka's names of settings that have another name in Java's clients."""
_SECRET_ENDINGS = ("password", "jaas.config", "key.pem", "keystore.key", "client.secret", "oauthbearer.token")
_LARGEST = 2**31 - 1
_PAIR = re.compile(r"([^=:\s]*)\s*[=:]?\s*(.*)")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings by the name that Java's clients have for them; values as the user wrote them."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def over(self, below: ClientSettings) -> ClientSettings:
        """Both combined; these win over those below."""
        return ClientSettings({**below.values, **self.values})

    def without_idle(self, environment: ClientSettings) -> ClientSettings:
        """The same without security settings of the environment that nothing uses.

        A password variable that is always set does no harm with a cluster that has no security.
        """
        if "security.protocol" in self.values:
            return self
        idle = {name for name in SECURITY if name in self.values and environment.values.get(name) == self.values[name]}
        return ClientSettings({name: value for name, value in self.values.items() if name not in idle})

    @property
    def bootstrap(self) -> str | None:
        return self.values.get("bootstrap.servers")

    @property
    def client_id(self) -> str | None:
        return self.values.get("client.id")

    @property
    def timeout_s(self) -> float | None:
        milliseconds = self.number("request.timeout.ms", 1)
        return None if milliseconds is None else milliseconds / 1000

    @property
    def acks(self) -> Acks:
        value = self.values.get("acks", "all")
        return cast(Acks, _one_of("acks", "all" if value == "-1" else value, ("all", "1", "0")))

    @property
    def compression(self) -> CompressionName:
        names = ("none", "gzip", "snappy", "lz4", "zstd")
        return cast(CompressionName, _one_of("compression.type", self.values.get("compression.type", "none"), names))

    @property
    def is_committed_only(self) -> bool:
        levels = ("read_uncommitted", "read_committed")
        return _one_of("isolation.level", self.values.get("isolation.level", levels[0]), levels) == levels[1]

    @property
    def group(self) -> str | None:
        return self.values.get("group.id")

    @property
    def begin(self) -> str:
        """Where to begin without --from, in the words of --from."""
        places = {"earliest": "start", "smallest": "start", "latest": "end", "largest": "end"}
        value = self.values.get("auto.offset.reset", "earliest")
        return places[_one_of("auto.offset.reset", value, tuple(places))]

    def number(self, name: str, least: int) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= _LARGEST:
            raise InvalidSettingError(f"{name} is {value!r}, but must be a whole number, {least} at least")
        return int(value)

    def security(self) -> Security:
        """Raises `InvalidSettingError`."""
        return security_of(self.values)

    def shown(self) -> dict[str, str]:
        """The same with secrets replaced."""
        return {name: "(secret)" if is_secret(name) else value for name, value in self.values.items()}


def is_known(name: str) -> bool:
    """Whether it is a client setting, by Java's or librdkafka's name."""
    return name in MEANINGS or name in _OTHER_NAMES


def is_secret(name: str) -> bool:
    return name.endswith(_SECRET_ENDINGS)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidSettingError(f"{name} is {value!r}, but must be one of {', '.join(choices)}")
    return value


def settings_of(pairs: Mapping[str, str], origin: str) -> ClientSettings:
    """The settings of one source; raises `InvalidSettingError` at an unknown name."""
    found: dict[str, str] = {}
    for name, value in pairs.items():
        if not is_known(name):
            hint = did_you_mean(name, [*MEANINGS], "qanat -X list shows what there is")
            raise InvalidSettingError(f"{origin}: there is no client setting {name}{hint}")
        own = _OTHER_NAMES.get(name, name)
        if own in found:
            raise InvalidSettingError(f"{origin}: {name} and {own} are the same setting: give one of them")
        found[own] = value
    return ClientSettings(found)


def settings_of_environment(environment: Mapping[str, str]) -> ClientSettings:
    names = {CLIENT_PREFIX + name.upper().replace(".", "_"): name for name in (*MEANINGS, *_OTHER_NAMES)}
    pairs: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(CLIENT_PREFIX):
            continue
        if variable not in names:
            hint = did_you_mean(variable, list(names), "qanat -X list shows what there is")
            raise InvalidSettingError(f"unknown environment variable {variable}{hint}")
        pairs[names[variable]] = value
    return settings_of(pairs, "environment")


def settings_of_file(path: str) -> ClientSettings:
    """The settings of a Java properties file, as Kafka's own tools take it; unknown names are ignored."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"--command-config {path}: {reason}") from None
    pairs = properties(text)
    known = {name: value for name, value in pairs.items() if is_known(name)}
    return settings_of(known, f"--command-config {path}")


def properties(text: str) -> dict[str, str]:
    r"""Lines `name=value`; `#` and `!` begin comments, and a backslash continues a line.

    >>> properties("# ours\nacks: all\nsasl.jaas.config = a \\\n   b=c;\n")
    {'acks': 'all', 'sasl.jaas.config': 'a b=c;'}
    """
    found: dict[str, str] = {}
    pending = ""
    for line in text.splitlines():
        pending += line.strip()
        if pending[:1] in ("", "#", "!"):
            pending = ""
        elif pending.endswith("\\") and not pending.endswith("\\\\"):
            pending = pending[:-1]
        else:
            name, value = _PAIR.fullmatch(pending).groups()  # type: ignore[union-attr]
            found[name] = value.replace("\\\\", "\\")
            pending = ""
    return found
