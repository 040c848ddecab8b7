"""The table of operations by API in docs/security/reference.md is what the broker asks its authorizer for.

Recorded with an authorizer that allows everything, and with one that allows nothing: what only the second is asked for
would be enough instead.
"""

from __future__ import annotations

from pathlib import Path

from tests.servers.kafka.authorization_rows import NEVER_REFUSED
from tests.servers.kafka.test_acl_matrix import CELLS, NAMED, ask
from tests.servers.permission_scenarios import Recorder

from qanat.api.api_table import SERVED
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security" / "reference.md"


class Refusing(Recorder):
    """Allows nothing, and remembers what it was asked for."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        super().allows(principal, host, operation, resource)
        return False


def named(needs: list[tuple[Operation, Resource]]) -> str:
    found = dict.fromkeys(
        f"{operation.name.lower().replace('_', '-')} {resource.kind.name.lower().replace('_', ' ')}"
        for operation, resource in needs
    )
    return ", ".join(found)


def table() -> list[str]:
    lines = []
    with EmbeddedBroker() as broker:
        for served in sorted(SERVED.values(), key=lambda one: one.api.name):
            key = served.key
            if key in NEVER_REFUSED:
                lines.append(f"| {served.api.name} | | {NEVER_REFUSED[key]} |")
                continue
            cells = [cell for cell in CELLS if cell[0] is key and cell[2] == NAMED]
            if not cells:
                lines.append(f"| {served.api.name} | | leaves out what may not be described |")
                continue
            allowing, refusing = Recorder(), Refusing()
            for recorder in (allowing, refusing):
                ask(broker, ListenerSecurity(authorizer=recorder), max(cells, key=lambda cell: cell[1]))
            instead = [need for need in refusing.asked if need not in allowing.asked]
            lines.append(f"| {served.api.name} | {named(list(allowing.asked))} | {named(instead)} |".replace("  ", " "))
    return lines


def test_the_page_lists_the_operations_of_every_api() -> None:
    rows = table()
    written = [line for line in PAGE.read_text().splitlines() if line in rows]

    assert written == rows, "\n".join(rows)
