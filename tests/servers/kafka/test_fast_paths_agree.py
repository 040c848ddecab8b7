"""The fast paths do what the ordinary ones do: the same answers, the same log, the same counts, for any requests.

Two brokers get the same requests, one over the fast paths and one without them. Requests are of every version, of
plain, idempotent and transactional producers that repeat, skip and are fenced; some are damaged, some fetches wait,
and an authorizer may decide, with a revision or without.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.servers.kafka.two_brokers import (
    NOW,
    OPEN_PRODUCER,
    Act,
    Asked,
    Damage,
    EndAct,
    FetchAct,
    ProduceAct,
    Revised,
    RightsAct,
    TwoBrokers,
)

from qanat.security.authorization import Operation
from qanat.wire.compression import Codec

CONFIGS: tuple[dict[str, object], ...] = (
    {},
    {"flush.messages": 1},
    {"flush.messages": 1, "max.message.bytes": 150},
    {"cleanup.policy": "compact"},
    {"compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.after.max.ms": 1000},
)

DAMAGE = st.builds(Damage, st.integers(0, 200), st.integers(0, 255), st.booleans(), st.booleans())
SELDOM_DAMAGE = st.one_of(*[st.none()] * 5, DAMAGE)
PRODUCES = st.builds(
    ProduceAct,
    st.integers(3, 13),
    st.sampled_from([-1, -1, 0, 1]),
    st.sampled_from([-1, 7, 8, OPEN_PRODUCER]),
    st.integers(0, 1),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP]),
    st.sampled_from([NOW, NOW + 2000, -1]),
    SELDOM_DAMAGE,
)
ENDS = st.builds(EndAct, st.booleans())
FETCHES = st.builds(
    FetchAct,
    st.sampled_from([4, *range(11, 18)]),
    st.sampled_from([0, 0, 1, 1, 1, 2, 2, 3, 4, 30, -1]),
    st.sampled_from([*([-1] * 8), 0, 99]),
    st.sampled_from([1 << 20, 200, 1, 0]),
    st.sampled_from([1 << 20, 200, 1, 0]),
    st.integers(0, 1),
    st.sampled_from([10_000, 10_000, 150, 1, 0]),
    st.booleans(),
    SELDOM_DAMAGE,
    st.lists(PRODUCES | ENDS, max_size=2),
)
BOTH = frozenset({Operation.READ, Operation.WRITE})
RIGHTS = st.builds(RightsAct, st.sampled_from([BOTH, BOTH, *(frozenset({one}) for one in sorted(BOTH)), frozenset()]))


@pytest.fixture(scope="module")
def brokers() -> Iterator[TwoBrokers]:
    both = TwoBrokers()
    yield both
    both.close()


ABORTED = FetchAct(16, 0, -1, 1 << 20, 1 << 20, 1, 10_000, True, None, [EndAct(is_commit=False)])


@example(acts=[ABORTED], configs={}, authorizer=None)
@example(acts=[ABORTED._replace(version=11)], configs={"flush.messages": 1}, authorizer=Revised)
@settings(max_examples=80, deadline=None)
@given(
    acts=st.lists(PRODUCES | FETCHES | PRODUCES | FETCHES | ENDS | RIGHTS, min_size=4, max_size=15),
    configs=st.sampled_from(CONFIGS),
    authorizer=st.sampled_from([None, Revised, Asked]),
)
def test_both_paths_answer_and_append_alike(
    brokers: TwoBrokers, acts: list[Act], configs: dict[str, object], authorizer: type[Asked] | None
) -> None:
    brokers.agree(acts, configs, authorizer)
