"""One broker in memory for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qanat.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def kept_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker
