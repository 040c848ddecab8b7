"""Every served API has a module that opens with its card, and the card names the versions of the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import qanat
from qanat.api.api_table import SERVED, ServedApi

PACKAGE = Path(next(iter(qanat.__path__)))


def card_of(served: ServedApi) -> str:
    """The docstring of the API's file, which need not be imported for it."""
    path = PACKAGE / f"{served.module.replace('.', '/')}.py"
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_an_api_has_a_file_of_its_own_with_a_card(served: ServedApi) -> None:
    assert card_of(served).startswith(f"{served.api.name} ({int(served.key)}): ")
    assert [one.api.name for one in SERVED.values() if one.module == served.module] == [served.api.name]


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_a_card_ends_with_the_last_version_that_is_served(served: ServedApi) -> None:
    versions = [int(number) for number in re.findall(r"\bv(\d+)\b", card_of(served))]

    assert max(versions, default=0) == served.last_version
    assert min(versions, default=served.first_version) >= served.first_version


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_what_is_served_can_be_read_and_written(served: ServedApi) -> None:
    assert served.api.knows(served.first_version)
    assert served.api.knows(served.last_version)
    assert callable(served.handle)
