"""The pytest plug-in: `qanat_broker` for one test, `qanat_broker_session` for all of them.

Installed with Qanat and loaded into every test run of the environment. So it
imports nothing of Qanat before a fixture is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from qanat.testing import EmbeddedBroker


@pytest.fixture
def qanat_broker() -> Iterator[EmbeddedBroker]:
    """A broker for this test alone, in memory."""
    from qanat.testing import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def qanat_broker_session() -> Iterator[EmbeddedBroker]:
    """A broker that all tests of the run share, in memory: choose distinct names for topics."""
    from qanat.testing import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker
