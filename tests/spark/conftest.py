"""One Spark session and one broker for all of these tests; every test has a topic of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qanat.spark.session import SHORT_LIVED_JAVA, session
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# PySpark leaves sockets and its gateway to the garbage collector.
QUIET = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    found = session(
        "tests",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "scratch"),
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
        },
    )
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def qanat_spark(spark: SparkSession) -> SparkSession:
    return spark


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


FOREVER = {"retention.ms": -1}
"""Of topics whose records have timestamps of long ago."""

_numbers = count()
"""Counts topics: a test that is run again has another one."""


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = f"{re.sub('[^a-z0-9-]+', '-', request.node.name)[:80]}-{next(_numbers)}"
    broker.create_topic(name, partitions=3, configs=FOREVER)
    return name


Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: SparkSession, broker: EmbeddedBroker) -> Read:
    """A batch read of a topic, with further options."""

    def read(topic: str, **options: object) -> DataFrame:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
        reader = spark.read.format("qanat")
        for name, value in given.items():
            reader = reader.option(name, str(value))
        return reader.load()

    return read


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
