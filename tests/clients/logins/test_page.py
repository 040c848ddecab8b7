"""docs/security/clients.md says what the tests do."""

from __future__ import annotations

from tests.clients.logins.page import PAGE, written


def test_the_page_has_the_matrix_and_the_settings_of_the_tests() -> None:
    page = PAGE.read_text()

    assert written(page) == page, "run: python -m tests.clients.logins.page"
