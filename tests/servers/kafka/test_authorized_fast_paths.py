"""An authorizer decides about requests on the fast paths, and does not switch those off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.servers.kafka.producer_here import TOPIC, ProducerHere, fetch_frame, one_batch, produce_frame

from qanat.api.caller import Caller
from qanat.api.interceptor import authorize
from qanat.api.permissions import Permissions
from qanat.log.admission import admit
from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import BrokerHere
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages import fetch, produce
from qanat.wire.kafka.registry import ApiKey

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PRODUCE_VERSION, FETCH_VERSION = 7, 11


class Asked:
    """An authorizer without a revision."""

    def __init__(self) -> None:
        self.allowed = {"ANONYMOUS"}
        self.asked: list[Operation] = []

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        assert (host, resource.name) == ("127.0.0.1", TOPIC)
        self.asked.append(operation)
        return principal.name in self.allowed


class Revised(Asked):
    """One with a revision."""

    def __init__(self) -> None:
        super().__init__()
        self.revision = 1

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        return bool(self.allowed)


class Client(ProducerHere):
    """A client behind an authorizer."""

    def __init__(self, broker: BrokerHere, authorizer: Asked, super_users: tuple[str, ...] = ()) -> None:
        super().__init__(broker)
        self.dispatcher.interceptor = authorize
        self.connection.security = ListenerSecurity(authorizer=authorizer, super_users=super_users)

    async def produce(self) -> int:
        """The error of a produce."""
        self.send(produce_frame(one_batch(), PRODUCE_VERSION))
        response = produce.read_response(memoryview(await self.answer())[8:], PRODUCE_VERSION)
        return response.responses[0].partition_responses[0].error_code

    async def produce_two(self) -> int:
        """The error of a produce for one partition twice, which no fast path takes."""
        rows = [produce.PartitionProduceData(at, memoryview(one_batch())) for at in (0, 0)]
        request = produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData(TOPIC, partition_data=rows)])
        message = produce.write_request(request, PRODUCE_VERSION)
        self.send(b"".join(map(bytes, frame_request(0, PRODUCE_VERSION, 1, "me", message))))
        response = produce.read_response(memoryview(await self.answer())[8:], PRODUCE_VERSION)
        first, second = (row.error_code for row in response.responses[0].partition_responses)
        assert first == second
        return first

    async def fetch(self) -> int:
        """The error of a fetch."""
        self.send(fetch_frame(FETCH_VERSION))
        response = fetch.read_response(memoryview(await self.answer())[8:], FETCH_VERSION)
        return response.responses[0].partitions[0].error_code


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The API keys of requests that took the ordinary path."""
    keys: list[int] = []
    handle = Dispatcher._handle

    def watched(self: Dispatcher, frame: memoryview, *arguments: Any) -> Any:
        keys.append(int.from_bytes(frame[:2]))
        return handle(self, frame, *arguments)

    monkeypatch.setattr(Dispatcher, "_handle", watched)
    return keys


@asynccontextmanager
async def running() -> AsyncIterator[BrokerHere]:
    async with BrokerHere() as broker:
        await broker.create_topic(TOPIC)
        yield broker


async def test_allowed_requests_take_the_fast_path_and_the_authorizer_is_asked_once(ordinary: list[int]) -> None:
    async with running() as broker:
        authorizer = Revised()
        client = Client(broker, authorizer)
        codes = [await client.produce(), await client.produce(), await client.fetch(), await client.fetch()]

    assert (codes, ordinary) == ([0, 0, 0, 0], [])
    assert authorizer.asked == [Operation.WRITE, Operation.READ]


class Counted(ListenerSecurity):
    """Counts how often permissions are looked up."""

    looked_up = 0

    def permissions(self, caller: Caller) -> Permissions:
        self.looked_up += 1
        return super().permissions(caller)


async def test_each_connection_of_a_user_looks_its_permissions_up_once() -> None:
    """They share them, and each has a principal of its own."""
    security = Counted(authorizer=Revised())
    async with running() as broker:
        for _ in range(2):
            client = Client(broker, Revised())
            client.connection.security, client.connection.principal = security, Principal("ANONYMOUS")
            assert [await client.produce() for _ in range(3)] == [0, 0, 0]

    assert security.looked_up == 2


async def test_denied_requests_are_refused_and_change_nothing(ordinary: list[int]) -> None:
    async with running() as broker:
        authorizer = Revised()
        authorizer.allowed = set()
        client = Client(broker, authorizer)

        assert [await client.produce(), await client.fetch()] == [DENIED, DENIED]
        assert ordinary == [0, 1]
        assert broker.node.broker.local_replicas.writable[TOPIC, 0].log.end_offset == 0


async def test_another_revision_holds_from_the_next_request_on() -> None:
    async with running() as broker:
        authorizer = Revised()
        client = Client(broker, authorizer)
        assert [await client.produce(), await client.fetch()] == [0, 0]
        authorizer.allowed, authorizer.revision = set(), 2
        assert [await client.produce(), await client.fetch()] == [DENIED, DENIED]
        authorizer.allowed, authorizer.revision = {"ANONYMOUS"}, 3

        assert [await client.produce(), await client.fetch()] == [0, 0]


async def test_a_client_that_loses_its_right_while_it_waits_gets_no_record() -> None:
    async with running() as broker:
        authorizer = Revised()
        reader, writer = Client(broker, authorizer), Client(broker, Revised())
        reader.send(fetch_frame(FETCH_VERSION, max_wait_ms=60_000))
        assert reader.dispatcher.counters.by_api[ApiKey.FETCH].parked == 1
        authorizer.allowed, authorizer.revision = set(), 2
        assert await writer.produce() == 0
        response = fetch.read_response(memoryview(await reader.answer())[8:], FETCH_VERSION)

    (found,) = response.responses[0].partitions
    assert found.error_code == DENIED
    assert not found.records


async def test_an_authorizer_without_a_revision_is_asked_every_time(ordinary: list[int]) -> None:
    async with running() as broker:
        authorizer = Asked()
        client = Client(broker, authorizer)
        assert [await client.produce(), await client.produce(), await client.fetch()] == [0, 0, 0]
        assert (authorizer.asked, ordinary) == ([Operation.WRITE, Operation.WRITE, Operation.READ], [])
        authorizer.allowed = set()

        assert [await client.produce(), await client.fetch()] == [DENIED, DENIED]


async def test_decisions_are_those_for_the_principal_of_now() -> None:
    async with running() as broker:
        client = Client(broker, Revised())
        assert [await client.produce(), await client.produce_two()] == [0, 0]
        client.connection.principal = Principal("bob")

        assert [await client.produce(), await client.produce_two(), await client.fetch()] == [DENIED] * 3


async def test_several_partitions_are_asked_about_once_until_the_rules_change(ordinary: list[int]) -> None:
    async with running() as broker:
        authorizer = Revised()
        client = Client(broker, authorizer)
        assert [await client.produce_two() for _ in range(3)] == [0, 0, 0]
        assert (ordinary, authorizer.asked) == ([0, 0, 0], [Operation.WRITE])
        authorizer.allowed, authorizer.revision = set(), 2

        assert [await client.produce_two() for _ in range(2)] == [DENIED, DENIED]
        assert broker.node.broker.local_replicas.writable[TOPIC, 0].log.end_offset == 6


async def test_a_transactional_id_needs_its_own_permission(ordinary: list[int]) -> None:
    class Transactions(Revised):
        def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
            self.asked.append(operation)
            return resource.kind is ResourceKind.TOPIC or resource.name in self.allowed

    async with running() as broker:
        log = broker.node.broker.local_replicas.writable[TOPIC, 0].log
        log.producers.requires_verification = False
        authorizer = Transactions()
        client = Client(broker, authorizer)
        fields = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
        log.append(admit(one_batch(**fields, base_sequence=0), log.settings, 0, 1000), 0, 0)
        codes: list[int] = []
        for allowed in (set(), {"id"}, {"id"}):
            authorizer.revision += allowed != authorizer.allowed
            authorizer.allowed = allowed
            frame = produce_frame(one_batch(**fields, base_sequence=len(codes) or 1), 7, transactional_id="id")
            client.send(frame)
            response = produce.read_response(memoryview(await client.answer())[8:], 7)
            codes.append(response.responses[0].partition_responses[0].error_code)

    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 0, 0]
    assert ordinary == [0]


@pytest.mark.parametrize("authorizer", [None, Revised, Asked])
async def test_one_transactional_batch_without_an_id_refuses_its_whole_request(authorizer: type[Asked] | None) -> None:
    async with running() as broker:
        client = ProducerHere(broker) if authorizer is None else Client(broker, authorizer())
        plain, transactional = one_batch(), one_batch(producer_id=9, producer_epoch=0, is_transactional=True)
        rows = [produce.PartitionProduceData(at, memoryview(one)) for at, one in enumerate([plain, transactional])]
        request = produce.ProduceRequest(None, -1, 1000, [produce.TopicProduceData(TOPIC, partition_data=rows)])
        message = produce.write_request(request, PRODUCE_VERSION)
        client.send(b"".join(map(bytes, frame_request(0, PRODUCE_VERSION, 1, "me", message))))
        response = produce.read_response(memoryview(await client.answer())[8:], PRODUCE_VERSION)

        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert [row.error_code for row in response.responses[0].partition_responses] == [refused, refused]
        assert broker.node.broker.local_replicas.writable[TOPIC, 0].log.end_offset == 0


async def test_a_super_user_is_not_asked_about(ordinary: list[int]) -> None:
    async with running() as broker:
        authorizer = Revised()
        authorizer.allowed = set()
        client = Client(broker, authorizer, ("User:ANONYMOUS",))

        assert [await client.produce(), await client.fetch()] == [0, 0]
        assert (authorizer.asked, ordinary) == ([], [])


async def test_an_interceptor_that_does_more_than_authorize_sees_every_request(ordinary: list[int]) -> None:
    async with running() as broker:
        client = Client(broker, Revised())
        authorized = client.dispatcher.interceptor
        assert authorized is not None
        client.dispatcher.interceptor = lambda *arguments: authorized(*arguments)

        assert [await client.produce(), await client.fetch()] == [0, 0]
        assert ordinary == [0, 1]
