"""Every served API in every version, against every kind of rule: a new API without a row fails.

Which operations an API needs is recorded while all are allowed; each kind of rule then grants exactly these, or takes
them away, and the broker must answer accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.servers.kafka import authorization_rows, test_authorization
from tests.servers.kafka.authorization_rows import BY_ID, LEFT_OUT, NEVER_REFUSED, ROWS, TRANSACTION
from tests.servers.kafka.raw import RawClient
from tests.servers.kafka.test_authorization import REQUESTS, TOPIC, _beat
from tests.servers.permission_scenarios import Image, Recorder, scenarios

from qanat.api.api_table import SERVED
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages import init_producer_id
from qanat.wire.kafka.registry import ApiKey

CALLER = "User:ANONYMOUS"
Cell = tuple[ApiKey, int, str]
"""An API, a version, and how the request names what it is about."""
NAMED, IDENTIFIED, LISTED = "by name", "by id", "in a list"


def versions(key: ApiKey, first: int = 0, last: int = 99) -> range:
    return range(max(first, SERVED[key].first_version), min(last, SERVED[key].last_version) + 1)


CELLS: list[Cell] = [
    *((key, version, NAMED) for key, row in REQUESTS.items() for version in versions(key, last=row[2])),
    *((key, version, NAMED) for key in ROWS for version in versions(key)),
    *((key, version, IDENTIFIED) for key, row in BY_ID.items() for version in versions(key, row[1])),
    *((key, version, LISTED) for key, row in LEFT_OUT.items() for version in versions(key, last=row[2])),
]
CELLS = [cell for cell in CELLS if cell[2] == LISTED or (cell[0], cell[1], LISTED) not in CELLS]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker that has the topic, the group and the transactional id of the requests."""
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC)
        with RawClient(broker.bootstrap_servers) as client:
            client.ask_coordinator(
                ApiKey.INIT_PRODUCER_ID, 4, init_producer_id.InitProducerIdRequest(TRANSACTION, 1000)
            )
            client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _beat(TOPIC))
        yield broker


def codes(answer: Any) -> set[int]:
    """Every error code anywhere in an answer."""
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        own = {value for name, value in fields.items() if name.endswith("error_code")}
        return own.union(*map(codes, fields.values()))
    return set().union(*map(codes, answer)) if isinstance(answer, list) else set()


def request_of(broker: EmbeddedBroker, cell: Cell) -> Any:
    key, version, form = cell
    if form == LISTED:
        return LEFT_OUT[key][0](version)
    if form == IDENTIFIED:
        return BY_ID[key][0](broker.node.broker.metadata.image.topics[TOPIC].identity.value.bytes)
    return (ROWS[key] if key in ROWS else REQUESTS[key])[0](version)


def ask(broker: EmbeddedBroker, security: ListenerSecurity, cell: Cell) -> Any:
    if TOPIC not in broker.topics():
        broker.create_topic(TOPIC)
    broker.node.listener.dispatcher.interceptor = security.handle
    try:
        with RawClient(broker.bootstrap_servers) as client:
            return client.ask(cell[0], cell[1], request_of(broker, cell))
    finally:
        broker.node.listener.dispatcher.interceptor = None


def is_served(broker: EmbeddedBroker, security: ListenerSecurity, cell: Cell) -> bool:
    """Whether the broker does what was asked for; where it refuses, it answers with the API's error and no other."""
    key, version, form = cell
    answer = ask(broker, security, cell)
    if form == LISTED:
        return LEFT_OUT[key][1](answer)
    code = ROWS[key][1](version) if key in ROWS else REQUESTS[key][1]
    if code not in codes(answer):
        return True
    assert codes(answer) - {0} == {code}
    return False


def test_every_served_api_has_a_row_or_a_reason() -> None:
    assert {*SERVED} == {*REQUESTS, *ROWS, *LEFT_OUT, *NEVER_REFUSED}


def test_every_version_of_a_served_api_has_a_cell() -> None:
    cells = {(key, version) for key, version, _ in CELLS}

    assert {(key, version) for key in {*SERVED} - {*NEVER_REFUSED} for version in versions(ApiKey(key))} == cells


def named(value: object) -> str:
    return str(getattr(value, "name", value))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(named, cell)))
def test_an_api_is_answered_as_its_rules_say(broker: EmbeddedBroker, cell: Cell) -> None:
    recorder = Recorder()
    assert is_served(broker, ListenerSecurity(authorizer=recorder), cell)
    needs = list(recorder.asked)
    assert needs
    image = Image()
    security = ListenerSecurity(authorizer=AclAuthorizer(image))
    wrong = []
    for name, (rules, is_enough) in scenarios(CALLER).items():
        image.set(rules(needs))
        if is_served(broker, security, cell) is not is_enough:
            wrong.append(name)
    image.set([])
    superior = ListenerSecurity(authorizer=AclAuthorizer(image), super_users=(CALLER,))
    if not is_served(broker, superior, cell):
        wrong.append("super user")

    assert wrong == []


@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if cell[2] == NAMED], ids=lambda cell: "-".join(map(named, cell))
)
def test_a_refusal_is_the_same_for_what_is_there_and_what_is_not(
    broker: EmbeddedBroker, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = ListenerSecurity(authorizer=AclAuthorizer(Image()))
    there = msgspec.json.encode(ask(broker, security, cell)).decode()
    for name in ("TOPIC", "GROUP", "TRANSACTION"):
        monkeypatch.setattr(authorization_rows, name, f"no-{getattr(authorization_rows, name)}")
        monkeypatch.setattr(test_authorization, name, getattr(authorization_rows, name), raising=False)
    absent = msgspec.json.encode(ask(broker, security, cell)).decode()

    assert absent.replace("no-", "") == there
