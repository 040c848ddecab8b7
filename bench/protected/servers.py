"""Protected servers: the same certificate, users, passwords and rules on both sides.

The client of measurements is no super user: every request of it is decided by rules. It logs in with PLAIN, over TLS:
librdkafka before 2.6.1 repeats the client's nonce, and neither side takes its SCRAM.
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tools.kafka_jars import VERSION, java_command
from tools.servers import CLUSTER_ID, KAFKA_JVM, START_SECONDS, Running, Server, free_port

from qanat import __version__
from qanat.app.secure.private_files import write_private
from qanat.app.secure.secure_setup import ADMIN, SecureFiles, admin_password, broker_settings, write_files

USER = "bench"
TLS, OPEN = "SASL_SSL", "SASL_PLAINTEXT"
SECOND = "SECOND"
MECHANISM = "PLAIN"
_TIMEOUT_S = 60.0
_AT_ONCE = 1_000
"""Rules in one request."""
_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
security.inter.broker.protocol=SASL_SSL
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
sasl.enabled.mechanisms={mechanism}
sasl.mechanism.inter.broker.protocol={mechanism}
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="{admin}" password="{admin_password}" user_{admin}="{admin_password}" user_{user}="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
"""
"""The broker reaches its controller without a password, as ANONYMOUS; no client does."""


class Secrets:
    """The certificate and the passwords of one run."""

    def __init__(self, folder: Path) -> None:
        self.files = SecureFiles.of(str(folder / "secrets"))
        write_files(self.files, [], "127.0.0.1:9092")
        self.password = secrets.token_urlsafe(12)
        self.users = self.files.folder / "users"
        write_private(self.users, f"{ADMIN}:{admin_password(self.files)}\n{USER}:{self.password}\n".encode())

    def admin(self, protocol: str = TLS) -> dict[str, str]:
        """The administrator's settings of librdkafka."""
        return self._settings(protocol, ADMIN, admin_password(self.files))

    def client(self, protocol: str = TLS) -> dict[str, str]:
        """The same of the client of all measurements."""
        return self._settings(protocol, USER, self.password)

    def _settings(self, protocol: str, user: str, password: str) -> dict[str, str]:
        return {
            "security.protocol": protocol,
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.files.authority),
        }

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.files.authority))


class Protected:
    """A protected server, with its rules once it runs."""

    def __init__(self, server: Server, rules: Sequence[AclBinding], admin: Mapping[str, str]) -> None:
        self._server = server
        self._rules = rules
        self._admin = admin

    def __str__(self) -> str:
        return str(self._server)

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        with self._server.running(folder) as running:
            admin = AdminClient({"bootstrap.servers": running.address, **self._admin})
            for at in range(0, len(self._rules), _AT_ONCE):
                for made in admin.create_acls(list(self._rules[at : at + _AT_ONCE])).values():
                    made.result(_TIMEOUT_S)
            yield running


def qanat(
    kept: Secrets,
    protocol: str = TLS,
    settings: Mapping[str, str] | None = None,
    rules: Sequence[AclBinding] | None = None,
    name: str = "Qanat",
    second: str = "",
) -> Protected:
    """As `qanat secure init` sets it up, with further settings; an empty one is left out.

    `second` is the address of another listener, `SECOND`, with SASL and without TLS.
    """

    def command(folder: Path, port: int) -> list[str]:
        plain = {"sasl.enabled.mechanisms": MECHANISM, "sasl.plain.credentials.file": str(kept.users)}
        addresses = _listeners(protocol, port, second)
        all_settings = {**broker_settings(kept.files), **plain, **addresses, **(settings or {})}
        flags = ["--data-dir", str(folder / "data"), "--log-level", "error"]
        flags += [word for key, value in all_settings.items() if value for word in ("-X", f"{key}={value}")]
        return [str(Path(sys.executable).with_name("qanat")), "start", *flags]

    made = own_rules() if rules is None else rules
    server = Server(name, __version__, command, kept.context() if protocol == TLS else None)
    return Protected(server, made, kept.admin(protocol))


def _listeners(protocol: str, port: int, second: str) -> dict[str, str]:
    if not second:
        return {"listener.security.protocol": protocol, "port": str(port)}
    return {
        "listener.security.protocol": "",
        "listeners": f"{protocol}://127.0.0.1:{port},{SECOND}://{second}",
        "listener.security.protocol.map": f"{protocol}:{protocol},{SECOND}:{OPEN}",
    }


def kafka(jars: Path, kept: Secrets) -> Protected:
    """Kafka with its StandardAuthorizer."""

    def command(folder: Path, port: int) -> list[str]:
        properties = folder / "server.properties"
        values = {"port": port, "controller_port": free_port(), "data": folder / "data", "mechanism": MECHANISM}
        values |= {"admin": ADMIN, "admin_password": admin_password(kept.files), "user": USER}
        values |= {"password": kept.password, "keystore": kept.files.broker, "truststore": kept.files.authority}
        properties.write_text(_PROPERTIES.format(**values))
        tool = java_command(jars, "kafka.tools.StorageTool", "-XX:TieredStopAtLevel=1")
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run([*tool, *arguments], check=True, capture_output=True, timeout=START_SECONDS)
        return [*java_command(jars, "kafka.Kafka", *KAFKA_JVM), str(properties)]

    server = Server("Apache Kafka", VERSION, command, kept.context())
    return Protected(server, own_rules(), kept.admin())


def rule(user: str, operation: AclOperation, kind: ResourceType, name: str, *, is_prefix: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def own_rules() -> list[AclBinding]:
    """What the client of measurements needs."""
    on_topics = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE)
    return [
        *(rule(USER, operation, ResourceType.TOPIC, "*") for operation in on_topics),
        rule(USER, AclOperation.READ, ResourceType.GROUP, "*"),
    ]
