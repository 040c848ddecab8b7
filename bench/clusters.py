"""Three brokers on each side: Qanat's share a metadata store, Kafka's are brokers and controllers in one.

Each is started as `tools.servers` starts a single one. Only the client shares the machine's processors with them.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient
from tools.kafka_jars import VERSION, java_command
from tools.servers import KAFKA_JVM, START_SECONDS, Running, ServerFailedError, free_port, stop, wait_for_answer

from qanat import __version__

BROKERS = 3
_LOOK_SECONDS = 0.05
_CLUSTER_ID = "cWFuYXQtYmVuY2gtMDAwMw"
_PROPERTIES = """process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
"""


class QanatCluster:
    """Brokers over one data directory, as `qanat cluster up` runs them."""

    def __str__(self) -> str:
        return f"Qanat {__version__}"

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        folder.mkdir(parents=True)
        ports = [free_port() for _ in range(BROKERS)]
        program = str(Path(sys.executable).with_name("qanat"))
        commands = [
            [
                *(program, "start", "--port", str(port), "--node-id", str(node_id)),
                *("--data-dir", str(folder / "data"), "--log-level", "warning"),
                *("-X", f"inter.broker.port={free_port()}", "-X", "http.port=-1"),
            ]
            for node_id, port in enumerate(ports)
        ]
        with _all_of(commands, ports, folder) as running:
            yield running


class KafkaCluster:
    """Three nodes, each broker and controller; their folders are formatted before the measurement."""

    def __init__(self, jars: Path) -> None:
        self._jars = jars

    def __str__(self) -> str:
        return f"Apache Kafka {VERSION}"

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        folder.mkdir(parents=True)
        ports, controller_ports = [[free_port() for _ in range(BROKERS)] for _ in range(2)]
        commands = [kafka_node(self._jars, folder, number, ports, controller_ports) for number in range(BROKERS)]
        with _all_of(commands, ports, folder) as running:
            yield running


def kafka_node(
    jars: Path, folder: Path, number: int, ports: Sequence[int], controller_ports: Sequence[int]
) -> list[str]:
    """The command that runs one of the nodes; its folder is formatted the first time."""
    data, properties = folder / f"data-{number}", folder / f"server-{number}.properties"
    if not data.exists():
        voters = ",".join(f"{other}@127.0.0.1:{port}" for other, port in enumerate(controller_ports))
        properties.write_text(
            _PROPERTIES.format(
                node_id=number,
                port=ports[number],
                controller_port=controller_ports[number],
                voters=voters,
                data=data,
            )
        )
        tool = java_command(jars, "kafka.tools.StorageTool", "-XX:TieredStopAtLevel=1")
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(properties)]
        subprocess.run([*tool, *arguments], check=True, capture_output=True, timeout=START_SECONDS)
    return [*java_command(jars, "kafka.Kafka", *KAFKA_JVM), str(properties)]


@contextlib.contextmanager
def _all_of(commands: Sequence[Sequence[str]], ports: Sequence[int], folder: Path) -> Iterator[Running]:
    """Processes that serve and know one another; all are stopped at once at the end."""
    started_at = time.perf_counter()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"output-{number}").open("wb") as output:
                processes.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
                )
        for number, (process, port) in enumerate(zip(processes, ports, strict=True)):
            wait_for_answer(process, port, folder / f"output-{number}")
        address = ",".join(f"127.0.0.1:{port}" for port in ports)
        _wait_until_whole(address, len(ports))
        yield Running([process.pid for process in processes], address, time.perf_counter() - started_at)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            stop(process)


def _wait_until_whole(address: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    deadline = time.monotonic() + START_SECONDS
    while len(admin.list_topics(timeout=START_SECONDS).brokers) < count:
        if time.monotonic() > deadline:
            raise ServerFailedError(f"{count} brokers did not find one another within {START_SECONDS:.0f} seconds")
        time.sleep(_LOOK_SECONDS)
