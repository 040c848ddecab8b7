"""The banner of `qanat start`: the node's identity, addresses, recovered data and durability."""

from __future__ import annotations

from qanat import __version__
from qanat.app.node.node import Node
from qanat.log.settings import NEVER_MS, LogSettings

_FLUSH_SETTINGS = ("flush.messages", "flush.ms")


def banner(node: Node) -> str:
    """The text, ready to print."""
    rows = (
        ("node", _identity(node)),
        ("cluster", node.cluster_id),
        ("kafka", _address(node)),
        ("http", _http(node)),
        ("metrics", node.metrics.address if node.metrics is not None else "not served (metrics.port)"),
        ("data", _data(node)),
        *_metadata(node),
        ("durability", durability(node)),
        ("recovered", recovered(node)),
    )
    lines = [f"  {name:<11} {value}" for name, value in rows]
    return "\n".join([f"qanat {__version__}", *lines])


def _identity(node: Node) -> str:
    name = node.settings.node_id
    return str(node.node_id) if isinstance(name, int) else f"{node.node_id} ({name})"


def _address(node: Node) -> str:
    bound, advertised = node.address, node.advertised_address
    return bound if bound == advertised else f"{bound}, advertised as {advertised}"


def _http(node: Node) -> str:
    if node.http is not None:
        return f"{node.http.address} (documentation: {node.http.address}/docs)"
    return "not served (http.port)"


def _data(node: Node) -> str:
    settings = node.settings
    if settings.storage_engine == "memory":
        return "in memory: lost when this process ends"
    return f"{settings.data_dir} (storage engine {settings.storage_engine})"


def _metadata(node: Node) -> list[tuple[str, str]]:
    """The address of the metadata store, unless it is in the data directory."""
    settings = node.settings.metadata
    if settings.metadata_store == "sqlite":
        return []
    return [("metadata", f"etcd at {settings.metadata_etcd_endpoints}, prefix {settings.metadata_etcd_prefix}")]


def durability(node: Node) -> str:
    """What an acknowledgement with acks=all means for a topic with default settings."""
    log = LogSettings.parse(
        {name: value for name, value in node.settings.topic_defaults.items() if name in _FLUSH_SETTINGS}
    )
    if node.settings.storage_engine == "memory":
        return "none"
    if log.flush_messages == 1:
        return "acks=all is answered once records are on disk (flush.messages=1)"
    parts = []
    if log.flush_messages < NEVER_MS:
        parts.append(f"every {log.flush_messages} records")
    if log.flush_ms < NEVER_MS:
        parts.append(f"every {log.flush_ms} ms")
    return f"records are synced to disk {' or '.join(parts)}" if parts else "left to the operating system"


def recovered(node: Node) -> str:
    """The partitions found in the data directory, and how it was last closed."""
    directory = node.directory
    if directory.is_new:
        return "nothing: the data directory is new"
    topics = len({at.topic for at in directory.logs})
    text = f"{len(directory.logs)} partitions of {topics} topics after " if topics else "no topics, after "
    text += "a clean shutdown" if directory.was_clean else "an unclean shutdown: every open segment was checked"
    if directory.offline:
        text += f"; {len(directory.offline)} cannot be opened"
    damaged = sum(1 for log in directory.logs.values() if log.damage)
    return f"{text}; {damaged} are damaged" if damaged else text
