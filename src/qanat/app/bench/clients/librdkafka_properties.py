"""librdkafka's properties from client settings: the cluster, its security, and all others of -X.

Names of client settings (`qanat -X list`) mean the same here; all others are librdkafka's, which rejects unknown ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from qanat.app.bench.clients.worker_messages import librdkafka_reason
from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.client_settings import ClientSettings, is_known, is_secret
from qanat.app.client.target import DEFAULT_TIMEOUT_S, Target
from qanat.connection.security import Pem, Security, Tls
from qanat.model.errors import InvalidSettingError, QanatError

Properties = dict[str, str]

_NOT_PASSED_ON = ("bootstrap.servers", "request.timeout.ms", "client.id", "group.id")
_LIBRDKAFKAS_NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms"}
"""Java's names that librdkafka spells differently."""
_LEAST_QUEUE_KBYTES = 32 * 1024
"""The queue of a producer, as in Java's (buffer.memory); librdkafka's own 1 GB would be all of the latency."""
_KIB = 1024
_RECORD_BYTES_MAX = 1_000_000_000
"""The largest record that librdkafka sends."""


class MissingLibraryError(QanatError):
    """The libraries that `qanat bench` needs are not installed."""


def require_libraries() -> None:
    """Raise `MissingLibraryError` with the packages to install."""
    missing = [
        name for name, module in (("confluent-kafka", "confluent_kafka"), ("hdrhistogram", "hdrh")) if not _has(module)
    ]
    if missing:
        raise MissingLibraryError(
            f"{' and '.join(missing)} must be installed to measure brokers: pip install 'qanat[bench]'"
        )


def _has(module: str) -> bool:
    return find_spec(module) is not None


@dataclass(frozen=True, slots=True)
class Clients:
    """How every client of a run connects."""

    target: Target
    """For requests through `connection`."""
    timeout_s: float
    client_settings: ClientSettings = field(repr=False)
    properties: Properties = field(repr=False)
    """Bootstrap, security, and all other settings of -X."""

    def shown(self) -> dict[str, str]:
        """The properties without secrets, for reports."""
        return {
            name: value
            for name, value in sorted(self.properties.items())
            if not is_secret(name) and name != "log_level"
        }


def clients_of(target: Target) -> Clients:
    """Raises where the libraries are missing or a setting is wrong."""
    require_libraries()
    pairs = assignments(target.settings or [])
    own = [f"{name}={value}" for name, value in pairs.items() if is_known(name)]
    target = replace(target, settings=own)
    resolved = target.resolved()
    timeout_s = target.cluster().timeout_s
    settings = resolved.settings
    passed = {
        _LIBRDKAFKAS_NAMES.get(name, name): value
        for name, value in settings.values.items()
        if name not in _NOT_PASSED_ON and not name.startswith(("sasl.", "ssl.", "security.", "enable.ssl."))
    }
    properties = {
        "bootstrap.servers": resolved.bootstrap,
        "client.id": settings.client_id or "qanat-bench",
        "log_level": "0",
        **protection(settings.security()),
        **passed,
        **{name: value for name, value in pairs.items() if not is_known(name)},
    }
    if "acks" in properties:
        properties["acks"] = settings.acks
    return Clients(target, timeout_s or DEFAULT_TIMEOUT_S, settings, properties)


def protection(security: Security) -> Properties:
    """TLS and SASL under librdkafka's names.

    >>> protection(Security())
    {'security.protocol': 'PLAINTEXT'}
    """
    found = {"security.protocol": security.protocol}
    if security.credentials is not None:
        if security.credentials.tokens is not None:
            raise InvalidSettingError("the clients of qanat bench log in with PLAIN or SCRAM, not with OAUTHBEARER")
        found["sasl.mechanism"] = security.credentials.mechanism
        found["sasl.username"] = security.credentials.username
        found["sasl.password"] = security.credentials.password
    return found if security.tls is None else found | _tls(security.tls)


def _tls(tls: Tls) -> Properties:
    found = {
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "none",
        "enable.ssl.certificate.verification": "true" if tls.checks_certificate else "false",
        **_pem("ssl.ca", tls.trusted),
        **_pem("ssl.certificate", tls.certificate),
        **_pem("ssl.key", tls.key),
    }
    return found if tls.key_password is None else found | {"ssl.key.password": tls.key_password}


def _pem(name: str, pem: Pem | None) -> Properties:
    if pem is None:
        return {}
    return {f"{name}.location": pem.location} if pem.location is not None else {f"{name}.pem": pem.text or ""}


def producer_properties(clients: Clients, size: int, more: Mapping[str, str]) -> Properties:
    """The properties of a producer of records of that size: flags before -X before defaults."""
    room = size + 64 * _KIB
    defaults = {
        "queue.buffering.max.kbytes": str(max(_LEAST_QUEUE_KBYTES, 4 * room // _KIB)),
        # The broker should reject records that are too large, not the client.
        "message.max.bytes": str(min(max(1_000_000, room), _RECORD_BYTES_MAX)),
        "message.timeout.ms": str(int(clients.timeout_s * 1000)),
    }
    return defaults | clients.properties | dict(more)


def consumer_properties(clients: Clients, group: str) -> Properties:
    fixed = {"group.id": group, "enable.auto.commit": "false", "enable.partition.eof": "true"}
    return {"auto.offset.reset": "earliest"} | clients.properties | fixed


def check_properties(properties: Mapping[str, str], kind: str) -> None:
    """Let librdkafka check the properties before anything is created; raises `WrongArgumentError`."""
    from confluent_kafka import Consumer, KafkaException, Producer

    try:
        if kind == "producer":
            Producer(dict(properties))
        else:
            Consumer(dict(properties)).close()
    except KafkaException as fault:
        raise WrongArgumentError(librdkafka_reason(fault)) from None
