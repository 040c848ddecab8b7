"""HTTP's fast path of produce does what the ordinary one does: the same answers, the same log, the same counts.

Two servers get the same requests, one of them without its fast path. Requests have every member of a record, right and
wrong, as one record or several, whole or in pieces; some are damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.http.http_here import HttpAnswer, HttpHere, fast_paths, request_bytes

from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import BrokerHere

NOW = 1_700_000_000_000
PARTITIONS = 2
CONFIGS: tuple[dict[str, object], ...] = (
    {},
    {"flush.messages": 1},
    {"flush.messages": 1, "max.message.bytes": 150},
    {"cleanup.policy": "compact"},
    {"compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.after.max.ms": 1000},
)
OMITTED: Any = object()
HERE, ELSEWHERE, FORBIDDEN = "here", "elsewhere", "forbidden"
MEMBERS: dict[str, tuple[Any, ...]] = {
    "topic": (HERE, HERE, HERE, HERE, ELSEWHERE, FORBIDDEN, "__consumer_offsets", "no name", OMITTED),
    "partition": (OMITTED, OMITTED, OMITTED, 0, 1, 2, -1, "0"),
    "key": (OMITTED, "key", "k\u00e9y", "a2V5", None, 7),
    "value": (1, "dGV4dA==", None, {"a": [1.5, True]}, "x" * 300, OMITTED),
    "timestamp": (OMITTED, OMITTED, NOW, NOW + 2000, -1, "now"),
    "headers": (OMITTED, OMITTED, {"h": "v", "n": None}, {"h": 1}),
    "key_encoding": (OMITTED, OMITTED, OMITTED, "base64", "hex"),
    "value_encoding": (OMITTED, OMITTED, OMITTED, "text", "base64"),
    "acks": (OMITTED, OMITTED, "all", "leader", "none", "some"),
    "other": (OMITTED, OMITTED, OMITTED, OMITTED, OMITTED, 1),
}
QUERIES = ("", "", "", "", "?topic=here", "?acks=leader", "?acks=all", "?other=1")
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {},
    {"content-type": "application/json; charset=utf-8"},
    {"content-type": "text/plain"},
    {"content-encoding": "gzip"},
    {"expect": "100-continue"},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"origin": "http://elsewhere.example"},
    {"host": "elsewhere.example"},
    {"x-other": "value"},
)


class Act(NamedTuple):
    """One request."""

    record: dict[str, Any]
    form: str
    query: str
    headers: dict[str, str]
    damage: tuple[int, int] | None
    """A byte of the body, and what it becomes."""
    cut: int | None
    """Where the body is cut into two writes."""

    def request(self, topic: str) -> tuple[bytes, int]:
        """The request for a topic of this name, and where to cut it."""
        record = {name: value for name, value in self.record.items() if value is not OMITTED}
        if record.get("topic") in (HERE, ELSEWHERE, FORBIDDEN):
            record["topic"] = f"{record['topic']}-{topic}"
        document: Any = {"one": record, "array": [record, record], "records": {"records": [record]}}[self.form]
        body = bytearray(msgspec.json.encode(document))
        if self.damage is not None:
            place, value = self.damage
            body[place % len(body)] = value
        query = self.query.replace(HERE, f"{HERE}-{topic}")
        data = request_bytes("POST", f"/produce{query}", bytes(body), self.headers)
        # A request that is refused by its head alone is answered before its body is there.
        is_whole = self.cut is None or bool(self.query or self.headers)
        return data, len(data) if is_whole else len(data) - 1 - (self.cut or 0) % len(body)


ACTS = st.builds(
    Act,
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in MEMBERS.items()}),
    st.sampled_from(["one", "one", "one", "one", "array", "records"]),
    st.sampled_from(QUERIES),
    st.sampled_from(HEADERS),
    st.none() | st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)),
    st.none() | st.none() | st.integers(0, 300),
)


class AllButForbidden:
    """An authorizer that allows everything but one topic."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return not resource.name.startswith(FORBIDDEN)


class Side:
    """One of the two brokers, and its HTTP server."""

    def __init__(self, broker: BrokerHere, http: HttpHere) -> None:
        self._broker, self.http = broker, http
        broker.node.broker.runtime.clock_ms = lambda: NOW

    async def begin(self, topic: str, configs: dict[str, object]) -> None:
        self._topics = [f"{name}-{topic}" for name in (HERE, FORBIDDEN)]
        for name in self._topics:
            await self._broker.create_topic(name, PARTITIONS, configs)
        self.http.context.counters.answered.clear()
        self._counted = self._counts()

    def _counts(self) -> list[int]:
        counted = self.http.context.counters.requests
        return [counted.requests, counted.request_bytes, counted.response_bytes, counted.duration_s.count]

    def outcome(self) -> list[object]:
        """What the requests have left behind."""
        logs = [
            self._broker.node.broker.lookup.led(name, number).log  # type: ignore[union-attr]
            for name in self._topics
            for number in range(PARTITIONS)
        ]
        stored = [b"".join(bytes(view) for view in log.read(0, 1 << 30).views()) for log in logs]
        counts = [now - before for now, before in zip(self._counts(), self._counted, strict=True)]
        answered = dict(self.http.context.counters.answered)
        return [stored, answered, counts, self._broker.node.broker.metadata.image.topics.keys()]


class TwoServers:
    """Both servers in one event loop, for all examples."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: str) -> None:
        for module in ("produce", "produce_fast_path"):
            patch.setattr(f"qanat.servers.http.records.{module}.now_ms", lambda: NOW)
        self._runner = asyncio.Runner()
        self._opened = AsyncExitStack()
        self._topics = 0
        self._sides = [self._runner.run(self._open(kind)) for _ in range(2)]
        self.taken = fast_paths(patch, without=self._sides[1].http)

    async def _open(self, kind: str) -> Side:
        broker = await self._opened.enter_async_context(BrokerHere())
        security = ListenerSecurity(authorizer=AllButForbidden()) if kind == "authorizer" else None
        http = await self._opened.enter_async_context(HttpHere(broker, security))
        if kind == "interceptor":
            # The fast path gives requests up once it has chosen a partition, as it does where a topic has followers.
            http.dispatcher.interceptor = lambda served, request, context: served.handle(request, context)
        return Side(broker, http)

    def close(self) -> None:
        self._runner.run(self._opened.aclose())
        self._runner.close()

    def agree(self, acts: list[Act], configs: dict[str, object]) -> None:
        self._topics += 1
        self._runner.run(self._agree(str(self._topics), acts, configs))

    async def _agree(self, topic: str, acts: list[Act], configs: dict[str, object]) -> None:
        for side in self._sides:
            await side.begin(topic, configs)
        for act in acts:
            request = act.request(topic)
            fast, ordinary = [await self._answer(side, *request) for side in self._sides]
            assert fast == ordinary
        fast_outcome, ordinary_outcome = (side.outcome() for side in self._sides)
        assert fast_outcome == ordinary_outcome

    async def _answer(self, side: Side, data: bytes, cut: int) -> HttpAnswer:
        return await side.http.send(data[:cut], data[cut:])


@pytest.fixture(scope="module", params=["everyone", "authorizer", "interceptor"])
def servers(request: pytest.FixtureRequest) -> Iterator[TwoServers]:
    with pytest.MonkeyPatch.context() as patch:
        both = TwoServers(patch, request.param)
        yield both
        both.close()


@settings(deadline=None)
@given(acts=st.lists(ACTS, min_size=1, max_size=8), configs=st.sampled_from(CONFIGS))
def test_both_paths_answer_append_and_count_alike(
    servers: TwoServers, acts: list[Act], configs: dict[str, object]
) -> None:
    servers.agree(acts, configs)


PLAIN = Act({"topic": HERE, "value": 1}, "one", "", {}, None, None)


def test_a_plain_record_takes_the_fast_path(servers: TwoServers) -> None:
    servers.taken.clear()
    servers.agree([PLAIN], {})

    assert servers.taken == [True, False]


def test_records_without_a_key_take_turns(servers: TwoServers) -> None:
    """The ordinary path takes the turn that the fast path did not use."""
    servers.agree([PLAIN] * 4, {})
