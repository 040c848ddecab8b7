"""The pytest plug-in: `qanat_broker` for one test, `qanat_broker_session` for all of them, `qanat_pipeline`.

Installed with Qanat and loaded into every test run of the environment. So it
imports nothing of Qanat before a fixture is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qanat.testing import EmbeddedBroker
    from qanat.testing.pipelines import PipelineTests


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


@pytest.fixture(scope="session")
def qanat_spark() -> Iterator[Any]:
    """The Spark session of `qanat_pipeline`, which all tests of the run share; a fixture of this name replaces it."""
    from qanat.app.pipelines.case_runner import small_session

    with small_session() as spark:
        yield spark


@pytest.fixture
def qanat_pipeline(qanat_spark: Any) -> PipelineTests:
    """Runs pipelines on given rows: `qanat_pipeline("orders.yaml", {"orders": [...]}).expect("out", [...])`."""
    from qanat.testing.pipelines import PipelineTests

    return PipelineTests(qanat_spark)
