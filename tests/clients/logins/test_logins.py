"""Every client logs in by every mechanism, and says why where it is refused."""

from __future__ import annotations

import gc
import re
import uuid
from collections.abc import Iterator
from importlib.metadata import entry_points

import pytest
from tests.clients import conftest
from tests.clients.kcat import Kcat
from tests.clients.logins.conftest import ClientOf
from tests.clients.logins.login import MECHANISMS, SASL, LoginClient
from tests.clients.logins.matrix import CLIENTS, DENIED, KCAT_WITH_REASONS, MATRIX, SPARK, Cannot, cells, refused
from tests.clients.logins.secured_broker import PREFIX, Secured

from qanat.app.node.plugins import AUTHENTICATORS
from qanat.security.oauthbearer import MECHANISM as OAUTHBEARER
from qanat.security.scram import HASHES

# What the clients warn of is theirs to mend.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

VALUES = ["one", "two", "three"]
every_cell = pytest.mark.parametrize(("name", "mechanism"), cells(*CLIENTS))


def test_the_matrix_has_every_client_and_every_mechanism() -> None:
    installed = entry_points(group=AUTHENTICATORS)
    own = {one.name for one in installed if one.value.startswith("qanat.")}

    assert {*SASL} == {*HASHES, OAUTHBEARER, *own}, "a mechanism that the broker has is not tried"
    assert {*MATRIX} == {*DENIED} == {*conftest.CLIENTS, SPARK}, "a client is not tried"
    assert {*CLIENTS} == {*conftest.CLIENTS}
    assert [name for name, rows in MATRIX.items() for row in rows.values() if isinstance(row, Cannot)] == ["kcat"] * 3
    assert {client: [*rows] for client, rows in MATRIX.items()} == {client: [*MECHANISMS] for client in MATRIX}


@pytest.fixture
def client(name: str, client_of: ClientOf) -> Iterator[LoginClient]:
    yield client_of(name)
    gc.collect()  # A socket that a client forgot is blamed on that client's test, where it is let pass.


@pytest.fixture
def topic(broker_with_logins: Secured, name: str, mechanism: str) -> str:
    """A topic that alice may use."""
    made = f"{PREFIX}{re.sub('[^a-z]+', '-', name.lower())}-{mechanism.lower()}-{uuid.uuid4().hex[:8]}"
    broker_with_logins.broker.create_topic(made)
    return made


def stored(secured: Secured, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in secured.broker.records(topic)]


@every_cell
def test_a_client_logs_in_and_writes_and_reads(
    broker_with_logins: Secured, client: LoginClient, mechanism: str, topic: str
) -> None:
    login = broker_with_logins.right(mechanism)
    client.write(login, topic, VALUES)

    assert stored(broker_with_logins, topic) == VALUES
    assert client.read(login, topic, len(VALUES)) == VALUES


@every_cell
def test_a_client_says_that_its_credential_was_refused(
    broker_with_logins: Secured, client: LoginClient, name: str, mechanism: str, topic: str
) -> None:
    before = broker_with_logins.refusals(mechanism)
    with pytest.raises(Exception, match=refused(name, mechanism)):
        client.write(broker_with_logins.wrong(mechanism), topic, VALUES)

    assert broker_with_logins.refusals(mechanism) > before, "the broker has refused it, and nobody else"
    assert stored(broker_with_logins, topic) == []


@pytest.mark.parametrize("name", ["kcat"])
@pytest.mark.parametrize("mechanism", [name for name, row in MATRIX["kcat"].items() if isinstance(row, Cannot)])
def test_what_kcat_cannot_do_is_so(
    broker_with_logins: Secured, client: LoginClient, name: str, mechanism: str, topic: str
) -> None:
    if KCAT_WITH_REASONS not in Kcat("none").version:
        pytest.skip(f"kcat stands on another version here than {KCAT_WITH_REASONS}: it may do this")
    row = MATRIX[name][mechanism]
    assert isinstance(row, Cannot)
    with pytest.raises(RuntimeError, match=row.says):
        client.write(broker_with_logins.right(mechanism), topic, VALUES)

    assert stored(broker_with_logins, topic) == []


@every_cell
def test_a_client_says_that_its_identity_lacks_a_right(
    broker_with_logins: Secured, client: LoginClient, name: str, mechanism: str, topic: str
) -> None:
    login = broker_with_logins.without_rules(mechanism)
    with pytest.raises(Exception, match=DENIED[name]):
        client.write(login, topic, VALUES)
    with pytest.raises(Exception, match=DENIED[name]):
        client.read(login, topic, 1)

    assert stored(broker_with_logins, topic) == []
