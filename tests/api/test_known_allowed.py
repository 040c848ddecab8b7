"""What is known to be allowed of a Produce is what its rule grants in full; nobody is asked to find that out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from qanat.api.authorization import GRANTED, AccessCheck
from qanat.api.permissions import Permissions
from qanat.api.records.produce import authorize, is_known_allowed
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.records import Record, encode_batch

Question = tuple[ResourceKind, str]
BATCH = encode_batch([Record(0, 0, None, b"value")])
NAMES = st.sampled_from(["a", "b", "c", ""])
QUESTIONS = st.tuples(st.sampled_from([ResourceKind.TOPIC, ResourceKind.TRANSACTIONAL_ID]), NAMES)


class Rules:
    """An authorizer with a revision; it counts questions."""

    def __init__(self, allowed: set[Question]) -> None:
        self.allowed = allowed
        self.revision = 1
        self.asked = 0

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        self.asked += 1
        return operation is Operation.WRITE and (resource.kind, resource.name) in self.allowed

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        return bool(self.allowed)


@given(
    allowed=st.sets(QUESTIONS),
    asked=st.lists(QUESTIONS),
    names=st.lists(NAMES, min_size=1, max_size=4),
    transactional_id=st.sampled_from([None, "a", "b", ""]),
    is_changed=st.booleans(),
    is_super=st.booleans(),
)
def test_what_is_known_to_be_allowed_the_rule_grants(
    allowed: set[Question],
    asked: list[Question],
    names: list[str],
    transactional_id: str | None,
    is_changed: bool,
    is_super: bool,
) -> None:
    rules = Rules(allowed)
    permissions = Permissions(rules, Principal("alice"), "h", is_super=is_super)
    for kind, name in asked:
        permissions.allow(Operation.WRITE, kind, name)
    if is_changed:
        rules.revision += 1
    before = rules.asked
    row = PartitionProduceData(0, memoryview(BATCH))
    topics = [TopicProduceData(name, partition_data=[row]) for name in names]
    request = ProduceRequest(transactional_id, -1, 1000, topics)

    is_known = is_known_allowed(request, permissions)

    assert rules.asked == before, "nobody is asked"
    needed = {(ResourceKind.TOPIC, name) for name in names}
    if transactional_id is not None:
        needed.add((ResourceKind.TRANSACTIONAL_ID, transactional_id))
    has_names = all(name for _, name in needed)
    assert is_known == (is_super or (not is_changed and has_names and needed <= allowed & set(asked)))
    if is_known:
        metadata = SimpleNamespace(image=SimpleNamespace(topics_by_id={}))
        broker = SimpleNamespace(acl_authorizer=None, metadata=metadata)
        caller = SimpleNamespace(host="h", last_denial=None)
        access = AccessCheck(permissions, cast("Any", caller), 9, cast("Any", broker))
        assert authorize(request, access) is GRANTED
        assert [topic.name for topic in request.topic_data] == names
