"""librdkafka's settings out of ours: which cluster, how safely, and whatever else -X says.

Names that our own commands know (`qanat -X list`) mean the same here; all others are librdkafka's, which refuses what
it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from qanat.app.bench.broker.tasks import refusal
from qanat.app.client_settings import ClientSettings, is_known, is_secret
from qanat.app.session import DEFAULT_TIMEOUT_S, Target, WrongArgumentError, assignments
from qanat.connection.security import Pem, Security, Tls
from qanat.model.errors import QanatError

Properties = dict[str, str]

_NOT_PASSED_ON = ("bootstrap.servers", "request.timeout.ms", "client.id", "group.id")
_LIBRDKAFKAS_NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms"}
"""Java's names that librdkafka does not know as its own."""
_LEAST_QUEUE_KBYTES = 32 * 1024
"""What waits in a producer at most, as in Java's (buffer.memory); the whole latency would be librdkafka's own 1 GB."""
_KIB = 1024
_RECORD_BYTES_MAX = 1_000_000_000
"""What librdkafka can be told to send."""


class MissingLibraryError(QanatError):
    """The libraries that measure are not installed."""


def require_libraries() -> None:
    """Raises `MissingLibraryError` naming what is to be installed."""
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
    """For our own requests."""
    timeout_s: float
    given: ClientSettings = field(repr=False)
    properties: Properties = field(repr=False)
    """Bootstrap, protection, and what -X says besides."""

    def shown(self) -> dict[str, str]:
        """What was said about the clients, without secrets, for reports."""
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
    meant = target.meant()
    timeout_s = target.cluster().timeout_s
    settings = meant.settings
    passed = {
        _LIBRDKAFKAS_NAMES.get(name, name): value
        for name, value in settings.values.items()
        if name not in _NOT_PASSED_ON and not name.startswith(("sasl.", "ssl.", "security.", "enable.ssl."))
    }
    properties = {
        "bootstrap.servers": meant.bootstrap,
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
    """Those of a producer of records of that size; what -X says comes before our defaults, flags before both."""
    room = size + 64 * _KIB
    defaults = {
        "queue.buffering.max.kbytes": str(max(_LEAST_QUEUE_KBYTES, 4 * room // _KIB)),
        # The broker is to say what is too large for it, not the client.
        "message.max.bytes": str(min(max(1_000_000, room), _RECORD_BYTES_MAX)),
        "message.timeout.ms": str(int(clients.timeout_s * 1000)),
    }
    return defaults | clients.properties | dict(more)


def consumer_properties(clients: Clients, group: str) -> Properties:
    fixed = {"group.id": group, "enable.auto.commit": "false", "enable.partition.eof": "true"}
    return {"auto.offset.reset": "earliest"} | clients.properties | fixed


def check_properties(properties: Mapping[str, str], kind: str) -> None:
    """Let librdkafka say what is wrong before anything is made; raises `WrongArgumentError`."""
    from confluent_kafka import Consumer, KafkaException, Producer

    try:
        if kind == "producer":
            Producer(dict(properties))
        else:
            Consumer(dict(properties)).close()
    except KafkaException as fault:
        raise WrongArgumentError(refusal(fault)) from None
