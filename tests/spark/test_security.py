"""Spark reads and writes over TLS with a password, and never shows it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.connection.certificates import Certificates, certificates, tls_in_front
from tests.spark.conftest import QUIET

from qanat.spark.options.option_reader import OptionError
from qanat.spark.options.options import source_options
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

PASSWORD = "hunter2"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'


@contextlib.contextmanager
def proxy(port: int, made: Certificates) -> Iterator[int]:
    """A TLS proxy in a thread of its own."""
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    found: list[int] = []

    async def serve() -> None:
        async with tls_in_front(port, made) as outside:
            found.append(outside)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def access(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Options that reach a broker which is protected by both."""
    (tmp_path / "credentials").write_text(f"alice:{PASSWORD}\n")
    (tmp_path / "credentials").chmod(0o600)
    made = certificates(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        inside = int(probe.getsockname()[1])
    with proxy(inside, made) as outside:
        settings = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{inside}",
            "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{outside}",
            "sasl.plain.credentials.file": str(tmp_path / "credentials"),
        }
        with EmbeddedBroker(settings=settings):
            yield {
                "kafka.bootstrap.servers": f"127.0.0.1:{outside}",
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": JAAS,
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(made.authority),
            }


def test_a_protected_broker_is_written_to_and_read_from(
    spark: SparkSession, access: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) value")
    for delivery in ("at-least-once", "exactly-once"):
        writing = {"topic": "orders", "delivery": delivery, "stagingLocation": str(tmp_path / "staging")}
        rows.write.format("qanat").mode("append").options(**access, **writing).save()
    found = spark.read.format("qanat").options(**access, subscribe="orders").load()

    assert found.count() == 200
    found.explain(extended=True)
    assert PASSWORD not in capsys.readouterr().out + repr(found) + str(found.schema)


def test_a_wrong_password_is_reported_without_the_password(spark: SparkSession, access: dict[str, str]) -> None:
    wrong = {**access, "kafka.sasl.jaas.config": JAAS.replace(PASSWORD, PASSWORD + "3")}
    with pytest.raises(PySparkException, match="does not let alice in") as raised:
        spark.read.format("qanat").options(**wrong, subscribe="orders").load().count()

    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kafka.sasl.mechanism": "GSSAPI"}, "option kafka.sasl.mechanism is 'GSSAPI', but must be one of PLAIN"),
        ({"kafka.sasl.pasword": PASSWORD}, "there is no option kafka.sasl.pasword; did you mean kafka.sasl.password"),
        ({"kafka.security.protocol": PASSWORD}, "must be one of PLAINTEXT"),
    ],
)
def test_a_wrong_option_is_an_error(change: dict[str, str], expected: str) -> None:
    right = {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
    }
    assert PASSWORD not in repr(source_options(right, is_stream=False))
    with pytest.raises(OptionError, match=expected):
        source_options({**right, **change}, is_stream=False)
