"""One node for all tests of a module: they use topics of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        yield running
