"""curl logs in over HTTP in every way that the broker has."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.clients.logins.curl import WAYS, ask, consume, options, produce
from tests.clients.logins.login import MTLS
from tests.clients.logins.secured_broker import PREFIX, Secured, secured

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not tried: it is not installed")

VALUES = ["one", "two", "three"]
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def broker_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Secured]]:
    """HTTP asks for certificates or for all else: two brokers, each started when it is needed."""
    running: dict[bool, Secured] = {}
    with ExitStack() as stack:

        def broker_of(way: str) -> Secured:
            is_mtls = way == MTLS
            if is_mtls not in running:
                folder = tmp_path_factory.mktemp("http")
                running[is_mtls] = stack.enter_context(secured(folder, http="SSL" if is_mtls else "SASL_SSL"))
            return running[is_mtls]

        yield broker_of


@pytest.fixture
def broker(broker_of: Callable[[str], Secured], way: str) -> Secured:
    return broker_of(way)


@pytest.fixture
def topic(broker: Secured) -> str:
    made = f"{PREFIX}curl-{uuid.uuid4().hex[:8]}"
    broker.broker.create_topic(made)
    return made


def address(broker: Secured) -> str:
    assert broker.broker.node.http is not None
    return broker.broker.node.http.address


@every_way
def test_curl_logs_in_and_writes_and_reads(broker: Secured, way: str, topic: str) -> None:
    given, url = options(way, broker.right(MTLS)), address(broker)

    assert [produce(given, url, topic, value).status for value in VALUES] == [200, 200, 200]
    found = consume(given, url, topic)
    assert found.status == 200
    assert [message["value"] for message in found.body["messages"]] == VALUES


@every_way
def test_curl_is_told_that_its_credential_was_refused(broker: Secured, way: str, topic: str) -> None:
    answer = produce(options(way, broker.wrong("PLAIN")), address(broker), topic, VALUES[0])

    if way == MTLS:
        assert answer.status == 0
        assert "alert" in answer.said
    else:
        assert answer.status == 401
    assert broker.broker.records(topic) == []


@every_way
def test_curl_is_told_that_its_identity_lacks_a_right(broker: Secured, way: str, topic: str) -> None:
    given, url = options(way, broker.without_rules(MTLS)), address(broker)
    answers = [produce(given, url, topic, VALUES[0]), consume(given, url, topic)]

    assert [answer.status for answer in answers] == [403, 403]
    assert {answer.body["principal"] for answer in answers} == {"User:bob"}
    assert broker.broker.records(topic) == []


def test_an_api_key_may_stand_in_the_authorization(broker_of: Callable[[str], Secured]) -> None:
    broker = broker_of("API key")
    login, url = broker.right("PLAIN"), f"{address(broker)}/api/v1/topics"
    headers = [f"Authorization: {scheme} {login.api_key}" for scheme in ("Bearer", "ApiKey", "Basic")]
    answers = [ask(["--cacert", login.authority, "--header", header], url) for header in headers]

    assert [answer.status for answer in answers] == [200, 200, 401]
