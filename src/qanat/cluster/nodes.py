"""Nodes and members: registered brokers, and what has become of the members of an in-sync set."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from msgspec import Struct

from qanat.cluster.image import MetadataImage
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence, Proof
from qanat.cluster.values import NEVER, SINCE_NOW, BrokerRegistration, Member, PartitionState


class MemberStatus(Enum):
    """What has become of a replica since it was last known to have everything."""

    STEADY = auto()
    """The same process as then."""
    BACK = auto()
    """Another process, which has proved that its log is sound; the proof says how much it holds."""
    UNPROVEN = auto()
    """Another process, which has not proved yet what it holds."""
    DOUBTFUL = auto()
    """Another process after a crash, of a topic that is not flushed before it is acknowledged: its end may be lost."""
    FAULTY = auto()
    """Its log is damaged or cannot be opened."""
    GONE = auto()
    """Not registered; it may come back with everything."""
    EMPTY = auto()
    """Its data directory was lost, with everything in it."""
    NEW = auto()
    """Its log was created after it became a member: it is not the one that had everything."""


class Node(Struct, frozen=True):
    """A registered broker."""

    epoch: int
    is_stopping: bool
    sound_since: int
    """A replica that had everything at this revision has it still, flushed or not."""
    stopped_at: int = NEVER
    """The revision at which it was stopped cleanly, as its data directory shows."""
    running_since: int = 0
    """The first epoch of its process, where that is not `epoch`."""
    directory_id: str = ""
    proves_logs: bool = True


class Nodes(Struct, frozen=True):
    """Every registered broker, and since when each node has had its directory."""

    alive: Mapping[int, Node]
    directories_since: Mapping[int, int]

    @staticmethod
    def of(image: MetadataImage) -> Nodes:
        """The nodes of an image. A node whose registration is torn counts as absent, which costs at most a little time,
        and not as back with its data."""
        alive = {
            node_id: _node(image, registration)
            for node_id, registration in image.brokers.items()
            if not image.is_torn(node_id)
        }
        return Nodes(alive, dict(image.directories_since))

    def is_steady(self, member: Member) -> bool:
        """Whether a member is still the same process."""
        node = self.alive.get(member.node_id)
        is_there = node is not None and node.epoch <= member.since
        return is_there and self.directories_since.get(member.node_id, 0) <= member.since

    def is_same_process(self, member: Member) -> bool:
        """Whether a member's process never stopped, though it may have registered again."""
        node = self.alive.get(member.node_id)
        return self.is_steady(member) or (node is not None and 0 < node.running_since <= member.since)

    def is_ready(self, node_id: int) -> bool:
        """Whether a node may be elected."""
        node = self.alive.get(node_id)
        return node is not None and not node.is_stopping

    def is_clean(self, member: Member) -> bool:
        """Whether a member's broker is back from a clean shutdown of the very run in which it was a member, or is still
        in that run. An older disk image shows a shutdown from before it became a member; a run that began after
        a crash, and was stopped before it was a member again, shows one that says nothing about its log."""
        node = self.alive.get(member.node_id)
        if node is None:
            return False
        return node.stopped_at >= member.since >= node.sound_since or 0 < node.running_since <= member.since

    def as_member(self, node_id: int) -> Member:
        """A node that has everything as of now, as a member."""
        return Member(node_id, self.alive[node_id].epoch)


class MemberStatuses:
    """The statuses of one partition's members. `flushed_since` is None where records are not flushed before they are
    acknowledged, else the revision since when they are."""

    def __init__(
        self, state: PartitionState, nodes: Nodes, flushed_since: int | None, evidence: Evidence = NOTHING_KNOWN
    ) -> None:
        self.nodes = nodes
        self.evidence = evidence
        self._flushed_since = flushed_since
        self.leader_epoch = state.leader_epoch
        self._is_sole = len(state.replicas) == 1

    def of(self, member: Member) -> MemberStatus:
        nodes, node_id = self.nodes, member.node_id
        if nodes.directories_since.get(node_id, 0) > member.since:
            return MemberStatus.EMPTY
        node = nodes.alive.get(node_id)
        if node is None:
            return MemberStatus.GONE
        if node_id in self.evidence.faults:
            return MemberStatus.FAULTY
        if node.epoch <= member.since:
            return MemberStatus.STEADY
        # A sole replica has no other copy to compare with; an older broker cannot prove anything.
        if not self._is_sole and node.proves_logs and (unfit := self._unfit(member, node)) is not None:
            return unfit
        is_flushed = self._flushed_since is not None and self._flushed_since <= member.since
        return MemberStatus.BACK if is_flushed or member.since >= node.sound_since else MemberStatus.DOUBTFUL

    def proof_of(self, node_id: int, node: Node) -> Proof | None:
        """What a broker has proved of its log, where the proof is current."""
        proof = self.evidence.proofs.get(node_id)
        if proof is None or proof.broker_epoch != node.epoch or proof.directory_id != node.directory_id:
            return None
        return proof if proof.leader_epoch == self.leader_epoch else None

    def _unfit(self, member: Member, node: Node) -> MemberStatus | None:
        """Why a proof does not count for a member; None where it does."""
        proof = self.proof_of(member.node_id, node)
        if proof is None:
            return MemberStatus.UNPROVEN
        if proof.generation > member.since:
            return MemberStatus.NEW
        return None if proof.is_sound else MemberStatus.FAULTY


def _node(image: MetadataImage, registration: BrokerRegistration) -> Node:
    return Node(
        image.broker_epochs[registration.node_id],
        registration.is_stopping,
        _sound_since(image, registration),
        registration.stopped_at,
        registration.running_since,
        registration.directory_id,
        registration.proves_logs,
    )


def _sound_since(image: MetadataImage, registration: BrokerRegistration) -> int:
    epoch = image.broker_epochs[registration.node_id]
    if registration.sound_since is None:
        return 0 if registration.is_clean else epoch
    return epoch if registration.sound_since == SINCE_NOW else registration.sound_since
