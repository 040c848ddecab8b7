"""How the nodes of a cluster stand, as far as an election is concerned: alive, back again, back without its data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from msgspec import Struct

from qanat.cluster.image import MetadataImage
from qanat.cluster.values import SINCE_NOW, BrokerRegistration, Member


class Standing(Enum):
    """What has become of a replica since it was last known to have everything."""

    STEADY = auto()
    """The same process as then."""
    BACK = auto()
    """Another process, with everything that the old one had acknowledged."""
    DOUBTFUL = auto()
    """Another process after a crash, of a topic that is not flushed before it is acknowledged: its end may be lost."""
    GONE = auto()
    """Not registered; it may come back with everything."""
    EMPTY = auto()
    """Its data directory was lost: whatever it had is gone."""


class Node(Struct, frozen=True):
    """A registered broker."""

    epoch: int
    is_stopping: bool
    sound_since: int
    """Whoever had everything at this revision has it still, flushed or not."""


class Nodes(Struct, frozen=True):
    """Every registered broker, and since when each node has had its directory."""

    alive: Mapping[int, Node]
    directories_since: Mapping[int, int]

    @staticmethod
    def of(image: MetadataImage) -> Nodes:
        """As the picture shows them. Of whom it is torn, nothing can be said yet: that one counts as away, which costs
        at most a little time, and not as back with its data."""
        alive = {
            node_id: Node(image.broker_epochs[node_id], registration.is_stopping, _sound_since(image, registration))
            for node_id, registration in image.brokers.items()
            if not image.is_torn(node_id)
        }
        return Nodes(alive, dict(image.directories_since))

    def standing(self, member: Member, *, is_flushed: bool) -> Standing:
        """What has become of a member; `is_flushed` where nothing of the topic is acknowledged before it is on disk."""
        if self.directories_since.get(member.node_id, 0) > member.since:
            return Standing.EMPTY
        node = self.alive.get(member.node_id)
        if node is None:
            return Standing.GONE
        if node.epoch <= member.since:
            return Standing.STEADY
        return Standing.BACK if is_flushed or member.since >= node.sound_since else Standing.DOUBTFUL

    def is_ready(self, node_id: int) -> bool:
        """Whether a node may be given something to lead."""
        node = self.alive.get(node_id)
        return node is not None and not node.is_stopping

    def as_member(self, node_id: int) -> Member:
        """A node that has everything as of now."""
        return Member(node_id, self.alive[node_id].epoch)


def _sound_since(image: MetadataImage, registration: BrokerRegistration) -> int:
    epoch = image.broker_epochs[registration.node_id]
    if registration.sound_since is None:
        return 0 if registration.is_clean else epoch
    return epoch if registration.sound_since == SINCE_NOW else registration.sound_since
