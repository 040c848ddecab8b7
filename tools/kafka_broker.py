"""Apache Kafka on loopback: one process, broker and controller in one, with its data in a folder."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kafka_jars import java_command
from tools.servers import free_port

START_SECONDS = 60
STOP_SECONDS = 30
CLUSTER_ID = "cWFuYXQtaW50ZXJvcC0wMQ"

_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={protocol}://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT
security.inter.broker.protocol={protocol}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
"""


class KafkaBroker:
    """Kafka's data folder; `running` starts a broker on it, any number of times."""

    def __init__(
        self,
        jars: Path,
        folder: Path,
        settings: str = "",
        features: Sequence[str] = (),
        protocol: str = "PLAINTEXT",
    ) -> None:
        self._jars = jars
        self.data = folder / "data"
        self._output = folder / "output"
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._properties = folder / "server.properties"
        ports = {"port": self._port, "controller_port": free_port()}
        properties = _PROPERTIES.format(**ports, data=self.data, protocol=protocol)
        self._properties.write_text(properties + settings)
        command = java_command(jars, "kafka.tools.StorageTool", "-XX:TieredStopAtLevel=1")
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        arguments += [word for feature in features for word in ("--feature", feature)]
        subprocess.run([*command, *arguments], check=True, capture_output=True, timeout=START_SECONDS)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """A context in which the broker runs and accepts connections; shut down cleanly at its end."""
        command = java_command(self._jars, "kafka.Kafka", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        with self._output.open("wb") as output:
            process = subprocess.Popen([*command, str(self._properties)], stdout=output, stderr=subprocess.STDOUT)
            try:
                self._wait(process)
                yield
            finally:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"Kafka ended with code {process.returncode}: {self._output.read_text()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.1)
        raise RuntimeError(
            f"Kafka does not accept connections after {START_SECONDS} seconds: {self._output.read_text()}"
        )
