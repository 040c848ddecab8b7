"""The format level: the form in which the cluster's metadata is written, like Kafka's `metadata.version`.

Brokers of two versions share a store while a cluster is upgraded. A newer broker reads every older form, and writes the
forms of the cluster's level. The level is in the store (`keys.FORMAT`; a cluster from before there were levels has 1).
An operator raises it, once every broker is new enough, and it is never lowered: from then on older brokers are refused.

| level | what it added |
| --- | --- |
| 1 | what there was before |
| 2 | partitions' states as arrays, a quarter of the size (`values.encode`) |

Rule 1: a broker's registration says which levels it knows; the level is raised only where all brokers know it.
Rule 2: a value in another form than before, or one that older brokers would drop, is a new level.
"""

from __future__ import annotations

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Compare, Operation, Put
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

OLDEST, NEWEST = 1, 2
"""The levels that this version knows."""
FEATURE = "format.level"
"""Its name among the cluster's features (ApiVersions, UpdateFeatures)."""


class FormatLevelError(QanatError):
    """The cluster is at a format level that this version does not know."""


class LevelPlan(Struct, frozen=True):
    """One commit that raises the level."""

    level: int
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def first_level() -> Put:
    """The level that the first broker of a cluster writes."""
    return Put(keys.FORMAT, values.encode(values.ClusterFormat(level=NEWEST)))


def require_known(level: int) -> None:
    """Refuse to join a cluster whose metadata we would misread."""
    if not OLDEST <= level <= NEWEST:
        raise FormatLevelError(
            f"the cluster is at format level {level}, and this version of Qanat knows {OLDEST} to {NEWEST}: "
            "install the version that the other brokers run"
        )


def decide_level(image: MetadataImage, level: int) -> LevelPlan | Rejection:
    """Raise the level."""
    if not OLDEST <= level <= NEWEST:
        return _no(f"level {level} is not known here; known are {OLDEST} to {NEWEST}")
    if level < image.format_level:
        return _no(f"the cluster is at level {image.format_level}, which cannot be lowered")
    behind = {node_id: one.levels for node_id, one in image.brokers.items() if not _knows(one, level)}
    if behind:
        ranges = ", ".join(f"broker {node_id} knows {first} to {last}" for node_id, (first, last) in behind.items())
        return _no(f"not every broker knows level {level}: {ranges}; upgrade them first")
    # A broker that registers again meanwhile may be another version: then it is decided again.
    compares = (image.unchanged(keys.FORMAT), *(image.unchanged(keys.broker(node_id)) for node_id in image.brokers))
    operation = Put(keys.FORMAT, values.encode(values.ClusterFormat(level=level)))
    return LevelPlan(level, compares, (operation,))


def _knows(broker: values.BrokerRegistration, level: int) -> bool:
    first, last = broker.levels
    return first <= level <= last


def _no(why: str) -> Rejection:
    return Rejection(ErrorCode.FEATURE_UPDATE_FAILED, f"{FEATURE} is not changed: {why}.")
