"""Identity of a data directory: Kafka's `meta.properties`, and a topic's id in each partition's folder."""

from __future__ import annotations

from msgspec import Struct

from qanat.log.atomic_files import read_whole, replace
from qanat.log.files import Files
from qanat.log.segments import file_names
from qanat.model.errors import StorageError
from qanat.wire.crc import crc32c

FORMAT = 1
"""Version of the layout of a data directory."""

_FILE = "meta.properties"
_CHECKSUM = b"checksum: "


class DirectoryIdentity(Struct, frozen=True):
    """The broker and cluster that a directory belongs to."""

    cluster_id: str
    node_id: int
    directory_id: str

    def encode(self) -> bytes:
        lines = [
            "version=1",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={self.directory_id}",
            f"qanat.format={FORMAT}",
        ]
        return ("\n".join(lines) + "\n").encode()


def claim_identity(files: Files, path: str, wanted: DirectoryIdentity) -> DirectoryIdentity:
    """Give a new directory its identity, or check that an old one has ours; its own directory id stays.

    Raises `StorageError` for another broker's data, and for a layout of a later version.
    """
    content = read_whole(files, f"{path}/{_FILE}")
    if content is None:
        replace(files, f"{path}/{_FILE}", wanted.encode())
        return wanted
    found = dict(line.split("=", 1) for line in content.decode(errors="replace").splitlines() if "=" in line)
    for key, value in (("cluster.id", wanted.cluster_id), ("node.id", str(wanted.node_id))):
        if found.get(key) != value:
            raise StorageError(
                f"{path} belongs to {key} {found.get(key)!r}, this broker has {value!r}: "
                "use another data directory, or the right id"
            )
    layout = found.get("qanat.format", "0")
    if not (layout.isascii() and layout.isdecimal()) or int(layout) > FORMAT:
        raise StorageError(f"{path} has layout {layout}, this version of qanat knows up to {FORMAT}: upgrade qanat")
    return DirectoryIdentity(wanted.cluster_id, wanted.node_id, found.get("directory.id", wanted.directory_id))


class PartitionIdentity(Struct, frozen=True):
    """The topic of a folder's log, and a revision of the metadata store at which that topic existed (0: not known)."""

    topic_id: str
    revision: int = 0
    generation: int = 0
    """The epoch of the broker that made the log (0: not known)."""


def write_partition_identity(files: Files, directory: str, identity: PartitionIdentity) -> None:
    """Kafka's file, with three more lines, which Kafka ignores."""
    text = (
        f"version: 0\ntopic_id: {identity.topic_id}\nrevision: {identity.revision}\ngeneration: {identity.generation}\n"
    )
    content = text.encode()
    content = b"%s%s%08x\n" % (content, _CHECKSUM, crc32c(content))
    replace(files, f"{directory}/{file_names.PARTITION_METADATA}", content)


def read_partition_identity(files: Files, directory: str) -> PartitionIdentity:
    """The identity in a partition's folder; an empty id where it is lost (the metadata store has it)."""
    written = read_whole(files, f"{directory}/{file_names.PARTITION_METADATA}") or b""
    text, has_checksum, checksum = written.rpartition(_CHECKSUM)
    # Kafka writes no checksum, nor did earlier versions. A changed id would make this another topic's log.
    if has_checksum and checksum != b"%08x\n" % crc32c(text):
        return PartitionIdentity("")
    content = written.decode(errors="replace")
    found = dict(line.split(": ", 1) for line in content.splitlines() if ": " in line)
    return PartitionIdentity(
        found.get("topic_id", "").strip(), _number(found.get("revision", "")), _number(found.get("generation", ""))
    )


def _number(text: str) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() else 0
