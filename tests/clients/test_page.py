"""docs/protocols/kafka.md says what is so."""

from __future__ import annotations

from tests.clients.conftest import CANNOT, CLIENTS
from tools.kafka_page import CAPABILITIES, PAGE, api_table, client_table, replaced


def test_the_table_of_apis_is_what_the_broker_serves() -> None:
    page = PAGE.read_text()

    assert replaced(page, "apis", api_table()) == page, "run: python -m tools.kafka_page"


def test_the_table_of_clients_names_every_client_and_capability() -> None:
    page = PAGE.read_text()

    assert [name for name in CLIENTS if f"| {name} |" not in page] == [], "run: make clients"
    assert [heading for heading in CAPABILITIES.values() if f"| {heading} |" not in page] == [], "run: make clients"
    assert [reason for reason in CANNOT.values() if reason not in page] == [], "run: make clients"
    assert "| no |" not in page


def test_a_client_that_is_not_there_says_why_in_its_row() -> None:
    table = client_table({"other": {"unavailable": "there is no Ruby"}}, {"create": "create a topic"})

    assert table.splitlines()[-1] == "| other | not tried: there is no Ruby |  |"
