"""The brokers of a comparison: Qanat in this process, in memory, and Apache Kafka with the same settings."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.kafka_broker import KafkaBroker

from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.groups.settings import GroupSettings
from qanat.security.settings import SecurityProtocol, SecuritySettings
from qanat.servers.kafka.connection import KafkaConnection
from qanat.transactions.settings import TransactionSettings
from verify.conformance.users import PASSWORD, ROOT, USERS

NODE_ID = 1
KAFKA_SETTINGS = """num.partitions=4
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
share.coordinator.state.topic.num.partitions=1
socket.request.max.bytes=8388608
log.initial.task.delay.ms=86400000
"""
KAFKA_FEATURES = ("share.version=1",)
"""Share groups are a preview in 4.1, and off by default."""
LARGEST_REQUEST_BYTES = 8 * 1024 * 1024
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PROTOCOL: SecurityProtocol = "SASL_PLAINTEXT"
KAFKA_SECURITY = f"""authorizer.class.name={AUTHORIZER}
super.users=User:{ROOT};User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="{ROOT}" password="{PASSWORD}" {" ".join(f'user_{user}="{PASSWORD}"' for user in USERS)};
"""
"""The broker and its controller know each other without a password, as ANONYMOUS."""


def _settings(security: SecuritySettings) -> NodeSettings:
    return NodeSettings(
        security=security,
        node_id=NODE_ID,
        storage_engine="memory",
        broker=BrokerSettings(port=0, socket_request_max_bytes=LARGEST_REQUEST_BYTES),
        groups=GroupSettings(
            group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1000, offsets_topic_num_partitions=1
        ),
        transactions=TransactionSettings(transaction_state_log_num_partitions=1),
    )


class QanatNode:
    """A node on a loop of its own, in a thread; `faults` are the exceptions that it reports."""

    def __init__(self, security: SecuritySettings) -> None:
        self._security = security
        self.faults: list[BaseException] = []
        self._address: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="qanat", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    def start(self) -> str:
        self._thread.start()
        return self._address.result(20)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as fault:  # noqa: BLE001 - `start` raises it
            if self._address.done():
                self.faults.append(fault)
            else:
                self._address.set_exception(fault)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with Node(_settings(self._security), on_fault=self._on_fault) as node:
            self._address.set_result(node.address)
            await self._over.wait()

    def _on_fault(self, connection: KafkaConnection, fault: BaseException) -> None:
        self.faults.append(fault)


@contextlib.contextmanager
def qanat(*, is_secured: bool = False) -> Iterator[tuple[str, list[BaseException]]]:
    """The address of a fresh node, and the faults that it reports."""
    with TemporaryDirectory(prefix="qanat-") as folder:
        node = QanatNode(_security(Path(folder)) if is_secured else SecuritySettings())
        address = node.start()
        try:
            yield address, node.faults
        finally:
            node.stop()


def _security(folder: Path) -> SecuritySettings:
    passwords = folder / "passwords"
    passwords.write_text("".join(f"{user}:{PASSWORD}\n" for user in USERS))
    passwords.chmod(0o600)
    return SecuritySettings(
        listener_security_protocol=PROTOCOL,
        sasl_plain_credentials_file=str(passwords),
        authorizer_class_name=AUTHORIZER,
        super_users=f"User:{ROOT}",
    )


@contextlib.contextmanager
def kafka(jars: Path, *, is_secured: bool = False) -> Iterator[str]:
    """The address of a fresh Kafka."""
    settings, protocol = KAFKA_SETTINGS, "PLAINTEXT"
    if is_secured:
        settings, protocol = settings + KAFKA_SECURITY, PROTOCOL
    with TemporaryDirectory(prefix="kafka-") as folder:
        broker = KafkaBroker(jars, Path(folder), settings, KAFKA_FEATURES, protocol)
        with broker.running():
            yield broker.address
