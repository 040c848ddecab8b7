"""The programs of docs/spark/index.md, piece by piece in one session; addresses and folders are the test's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.documents.blocks import ROOT, blocks_of
from tests.spark.conftest import QUIET

from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = ROOT / "docs" / "spark" / "index.md"
SCHEMA = "id bigint, customer string, amount double, placed timestamp"
ROWS = [json.dumps({"id": n, "customer": "ann", "amount": n / 2}).encode() for n in range(3)]


@pytest.mark.long
@QUIET
def test_every_program_of_the_page_does_what_it_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read, typed, dead_letters, exactly_once, stream = (one.text for one in blocks_of(PAGE) if one.is_python)
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
        for topic in ("orders", "orders.dead", "orders.big", "orders.upper"):
            broker.create_topic(topic)
        producer = Producer({"bootstrap.servers": address})
        for value in (*ROWS, b"no JSON"):
            producer.produce("orders", value, b"a key")
        assert producer.flush(60) == 0
        names: dict[str, Any] = {"__name__": "__main__"}

        def here(text: str) -> str:
            ends = ".trigger(availableNow=True).start().awaitTermination()"
            return text.replace("localhost:9092", address).replace("/data/", f"{tmp_path}/").replace(".start()", ends)

        def followed(**options: str) -> DataFrame:
            reader = spark.readStream.format("qanat").option("kafka.bootstrap.servers", address)
            return reader.option("subscribe", "orders").options(startingOffsets="earliest", **options).load()

        exec(here(read), names)
        assert "a key" in capsys.readouterr().out
        batch = names["orders"].selectExpr("key", "value")
        exec(here(typed), names)
        assert "| ann|" in capsys.readouterr().out.replace("     ", " ")

        names["stream"] = followed(valueFormat="json", valueSchema=SCHEMA)
        writer = eval(here(dead_letters), names).option("kafka.bootstrap.servers", address)
        writer.option("checkpointLocation", str(tmp_path / "dead")).trigger(
            availableNow=True
        ).start().awaitTermination()
        (letter,) = broker.records("orders.dead")
        assert letter.value == b"no JSON"
        assert ("__dlq.errors.offset", b"3") in list(letter.headers)

        exec(here(exactly_once), names)
        for _ in range(2):
            names["write"](batch, 1)
        assert [one.value for one in broker.records("orders.big")] == [*ROWS, b"no JSON"]

        names["orders_stream"] = followed()
        exec(here(stream), names)
        assert [one.value for one in broker.records("orders.upper")] == [one.upper() for one in (*ROWS, b"no JSON")]
