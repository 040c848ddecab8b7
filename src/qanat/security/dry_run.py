"""A dry run of the authorizer: what rules would have denied, recorded and let through.

Rule 1: memory is bounded: so many different denials are kept, and further ones are only counted.
Rule 2: some are enforced in a dry run as well: what acts as a broker, and what changes users and rules. A client could
        give itself rights that outlast the dry run.
Rule 3: CREATE and IDEMPOTENT_WRITE on the cluster are not let through either: the next question is about topics, and
        the narrower rule is the one to suggest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import Operation, ResourceKind

DENIALS_MAX = 1000
_ENFORCED = (Operation.CLUSTER_ACTION, Operation.ALTER, Operation.CREATE, Operation.IDEMPOTENT_WRITE)
_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


class RecordedDenial(Struct, frozen=True):
    """Something that no rule allows."""

    principal: str
    operation: Operation
    kind: ResourceKind
    name: str


class DryRun:
    """The denials of one broker since its start."""

    def __init__(self, denials_max: int = DENIALS_MAX) -> None:
        self._denials_max = denials_max
        self._counts: dict[RecordedDenial, int] = {}
        self.total = 0
        self.dropped = 0
        """Denials that were counted only: the table was full."""

    @property
    def counts(self) -> Mapping[RecordedDenial, int]:
        """How often each was asked for, in the order of the first time."""
        return self._counts

    def record(self, denial: RecordedDenial) -> None:
        self.total += 1
        if denial in self._counts or len(self._counts) < self._denials_max:
            self._counts[denial] = self._counts.get(denial, 0) + 1
        else:
            self.dropped += 1


def is_enforced(operation: Operation, kind: ResourceKind) -> bool:
    """Whether a dry run denies it all the same (rules 2 and 3)."""
    return kind is ResourceKind.CLUSTER and operation in _ENFORCED


def suggested(denials: Iterable[RecordedDenial], *, with_descriptions: bool = False) -> list[Acl]:
    """The rules that would allow them, without those that others imply.

    Lists ask for every topic and group whether it may be described: rules for that alone are left out unless
    `with_descriptions`.
    """
    found = dict.fromkeys(denials)
    return [
        Acl(one.kind, one.name, PatternType.LITERAL, one.principal, ANY, one.operation, Permission.ALLOW)
        for one in sorted(found, key=lambda one: (one.principal, one.kind, one.name, one.operation))
        if not _is_implied(one, found) and (with_descriptions or not _is_description(one))
    ]


def _is_implied(one: RecordedDenial, found: Mapping[RecordedDenial, None]) -> bool:
    stronger = _IMPLIED_BY.get(one.operation, ())
    return any(RecordedDenial(one.principal, other, one.kind, one.name) in found for other in stronger)


def _is_description(one: RecordedDenial) -> bool:
    return one.operation is Operation.DESCRIBE and one.kind in (ResourceKind.TOPIC, ResourceKind.GROUP)
