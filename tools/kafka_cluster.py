"""Three nodes of Apache Kafka, each broker and controller, that are started and killed one by one."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.brokers import BrokerProcesses
from tools.kafka_jars import java_command

START_SECONDS = 60
_CLUSTER_ID = "cWFuYXQtZmlyZS0wMDAwMw"
_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_PROPERTIES = """process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
"""


def kafka_cluster(
    jars: Path, folder: Path, settings: Mapping[str, str] | None = None, features: Sequence[str] = ()
) -> BrokerProcesses:
    """The nodes, as a context; `settings` are further ones of every node, `features` those of the first format."""

    def command(brokers: BrokerProcesses, node_id: int) -> Sequence[str]:
        properties = brokers.folder / f"server-{node_id}.properties"
        if not properties.exists():
            properties.write_text(_properties(brokers, node_id))
            _format(jars, properties, features)
        return [*java_command(jars, "kafka.Kafka", *_JVM), str(properties)]

    return BrokerProcesses(folder, settings=settings, command=command)


def _properties(brokers: BrokerProcesses, node_id: int) -> str:
    controllers = brokers.inter_broker_ports
    text = _PROPERTIES.format(
        node_id=node_id,
        port=brokers.ports[node_id],
        controller_port=controllers[node_id],
        voters=",".join(f"{other}@127.0.0.1:{port}" for other, port in enumerate(controllers)),
        data=brokers.folder / f"data-{node_id}",
    )
    return text + "".join(f"{name}={value}\n" for name, value in brokers.settings.items())


def _format(jars: Path, properties: Path, features: Sequence[str]) -> None:
    tool = java_command(jars, "kafka.tools.StorageTool", "-XX:TieredStopAtLevel=1")
    arguments = ["format", "-t", _CLUSTER_ID, "-c", str(properties)]
    arguments += [word for feature in features for word in ("--feature", feature)]
    subprocess.run([*tool, *arguments], check=True, capture_output=True, timeout=START_SECONDS)
