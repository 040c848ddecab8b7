"""Windows, sessions, tables to enrich from and joins of streams, through a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.spark.conftest import QUIET

from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.testing import EmbeddedBroker
from qanat.testing.pipelines import PipelineTests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

WINDOWS = """\
name: windows
sources:
  clicks: {topic: clicks, schema: "user string, at timestamp"}
  users: {parquet: FOLDER/users}
  banned: {table: banned_users}
  countries: {format: csv, schema: "code string, country string", options: {path: FOLDER/countries}}
steps:
  timed: {sql: "select record.user, record.at from clicks"}
  ready: {from: timed, watermark: {column: at, delay: 1 minute}}
  sliding:
    from: ready
    windows: {column: at, sizes: {2m: 2 minutes, 90s: 90 seconds}, slide: 1 minute, compute: {n: count(*)}}
  sessions:
    from: ready
    windows: {column: at, gap: 5 minutes, by: [user], compute: {n: count(*)}}
  enriched:
    sql: >
      select user, country from timed join users on user = name left join countries on users.code = countries.code
  allowed: {sql: "select distinct user from timed left anti join banned on user = banned.name"}
sinks:
  out: {from: sliding, console: true}
"""


def clicks(*times: str, user: str = "ann") -> list[dict[str, Any]]:
    return [{"value": {"user": user, "at": f"2026-01-01T{time}Z"}} for time in times]


def window(start: str, end: str, **columns: Any) -> dict[str, Any]:
    return {"start": f"2026-01-01T{start}:00Z", "end": f"2026-01-01T{end}Z", **columns}


def test_windows_slide_sessions_end_after_a_gap_and_tables_enrich(
    spark: SparkSession, qanat_pipeline: PipelineTests, tmp_path: Path
) -> None:
    path = tmp_path / "windows.yaml"
    path.write_text(WINDOWS.replace("FOLDER", str(tmp_path)))
    spark.createDataFrame([("ann", "no"), ("bob", "xx")], "name string, code string").write.parquet(f"{tmp_path}/users")
    (tmp_path / "countries").write_text("no,Norway\n")
    spark.createDataFrame([("bob",)], "name string").createOrReplaceTempView("banned_users")
    rows = clicks("12:00:30", "12:01:00") + clicks("12:01:40", user="bob") + clicks("12:06:00", "12:11:01")
    done = qanat_pipeline(path, {"clicks": rows[:3]})

    done.expect(
        "sliding",
        [
            window("11:59", "12:01:00", size="2m", n=1),
            window("12:00", "12:02:00", size="2m", n=3),
            window("12:01", "12:03:00", size="2m", n=2),
            window("12:00", "12:01:30", size="90s", n=2),
            window("12:01", "12:02:30", size="90s", n=2),
        ],
    )
    done.expect("enriched", [{"user": "ann", "country": "Norway"}] * 2 + [{"user": "bob"}])
    done.expect("allowed", [{"user": "ann"}])
    again = qanat_pipeline(
        path, {"clicks": rows, "users": [{"name": "bob", "code": "se"}], "countries": [{"code": "se", "country": "S"}]}
    )
    again.expect(
        "sessions",
        [
            window("12:00", "12:11:00", user="ann", n=3) | {"start": "2026-01-01T12:00:30Z"},
            window("12:01", "12:06:40", user="bob", n=1) | {"start": "2026-01-01T12:01:40Z"},
            window("12:11", "12:16:01", user="ann", n=1) | {"start": "2026-01-01T12:11:01Z"},
        ],
    )
    again.expect("enriched", [{"user": "bob", "country": "S"}])
    with pytest.raises(PipelineError, match=r"given rows of users: without a schema .* of an empty table are unknown"):
        qanat_pipeline(path, {"users": []})


JOIN = """\
name: joined
settings: {orders: a, payments: b, folder: c}
sources:
  orders: {topic: "${orders}", schema: "id int, placed timestamp"}
  payments: {topic: "${payments}", schema: "order int, paid timestamp"}
  names: {format: json, options: {path: "${folder}/names.json"}}
steps:
  placed_only: {sql: "select record.id, record.placed from orders"}
  placed: {from: placed_only, watermark: {column: placed, delay: 1 minute}}
  paid_only: {sql: "select record.order, record.paid from payments"}
  paid: {from: paid_only, watermark: {column: paid, delay: 1 minute}}
  both:
    sql: >
      select string(placed.id) as key, name, paid from placed
      left join paid on placed.id = paid.order and paid between placed and placed + interval 1 hour
      left join names on placed.id = names.id
  sessions:
    from: placed
    windows: {column: placed, gap: 1 minute, by: [id], compute: {n: count(*)}}
sinks:
  joined: {from: both, topic: "${orders}-paid", partitions: 1, valueFormat: json}
  sessions: {from: sessions, topic: "${orders}-sessions", partitions: 1, valueFormat: json}
"""


@pytest.mark.long
def test_streams_are_joined_within_their_watermarks(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    path, payments = tmp_path / "join.yaml", f"{topic}-payments"
    path.write_text(JOIN)
    (tmp_path / "names.json").write_text('{"id": 1, "name": "first"}\n')
    broker.create_topic(payments, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(to: str, *values: dict[str, Any]) -> None:
        for value in values:
            producer.produce(to, json.dumps(value).encode(), partition=0)
        assert producer.flush(60) == 0

    def run() -> None:
        options = RunOptions(broker.bootstrap_servers, str(tmp_path / "checkpoint"), is_available_now=True)
        settings = {"orders": topic, "payments": payments, "folder": str(tmp_path)}
        watch(named(str(path)).launch(spark, settings, options), Stop())

    send(topic, {"id": 1, "placed": "2026-01-01T12:00:00Z"}, {"id": 2, "placed": "2026-01-01T12:00:00Z"})
    send(payments, {"order": 1, "paid": "2026-01-01T12:30:00Z"}, {"order": 2, "paid": "2026-01-01T15:00:00Z"})
    run()
    send(topic, {"id": 3, "placed": "2026-01-01T18:00:00Z"})
    send(payments, {"order": 9, "paid": "2026-01-01T18:00:00Z"})
    run()

    joined = {record.key: json.loads(record.value or b"") for record in broker.records(f"{topic}-paid")}
    assert joined == {b"1": {"name": "first", "paid": "2026-01-01T12:30:00.000Z"}, b"2": {}}
    sessions = [json.loads(record.value or b"") for record in broker.records(f"{topic}-sessions")]
    assert [(one["id"], one["end"], one["n"]) for one in sorted(sessions, key=lambda one: int(one["id"]))] == [
        (1, "2026-01-01T12:01:00.000Z", 1),
        (2, "2026-01-01T12:01:00.000Z", 1),
    ]
