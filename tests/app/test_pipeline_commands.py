"""`qanat pipeline` from the command line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from qanat.app.main import run
from qanat.app.pipelines import pipeline_runner
from qanat.app.pipelines.progress_display import LineDisplay, line, table
from qanat.model.pipeline_runs import QueryState, TopicLag
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.runs.exporter import Exporter, exposition
from qanat.testing import EmbeddedBroker

PATIENCE_S = 240
TALLY = Tally("metrics-rollup", 3, 1000, 20, 2.5, 400.0, 7, "2026-01-01T00:00:00.000Z", 12, 34_000, 5, 6)


QUERY = QueryState(
    "metrics-rollup", 3, 1000, lag={"in": TopicLag(7, 2.5), "other": TopicLag(1)}, watermark="2026-01-01T00:00:00.000Z"
)


def test_pipelines_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "list", "-o", "names"]) == 0
    assert "metrics" in capsys.readouterr().out.split()
    assert run(["pipeline", "show", "metrics"]) == 0
    assert capsys.readouterr().out.startswith("name: metrics\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["metrcs"], "there is no pipeline metrcs; did you mean metrics?"),
        (["metrics", "--set", "lak=x"], "pipeline metrics has no setting lak; did you mean lake?"),
        (["metrics", "--set", "limit=few"], "limit is 'few', but must be a number of records above 0, or all"),
        (["metrics", "--error", "2"], "error is '2', but must be a number from 0.0001 to 0.1: 0.01 is one per cent"),
        (["metrics", "--batch-time", "soon"], "batch_time: 'soon' is not a duration such as"),
        (["metrics", "--lak", "x"], "there is no option --lak, and pipeline metrics has none; did you mean lake?"),
        (["archive", "--lake"], "--lake needs a value"),
        (["archive", "orders"], "'orders' is one argument too many"),
        (["archive"], "no topics: give topics (names with commas) or pattern"),
        (["archive", "--topics", "orders", "--every", "often"], "every: 'often' is not a duration"),
        (["replay", "--until", "noon"], "until 'noon' is not a point in time: write 2026-11-15T10:30:00"),
        (["replay", "--lake", "nowhere", "--verify"], "nowhere is not a lake: it is empty"),
        (["mirror", "--topics", "orders"], "to is missing: the target cluster"),
        (["metrics", "--master", "lokal[2]"], "--master lokal[2]: write local[2], spark://host:7077, yarn or k8s"),
        (["metrics", "--conf", "spark.driver.memory=200m"], "spark.driver.memory=200m: Spark needs a heap of at least"),
        (["metrics", "--as", "a b"], "--as 'a b': write letters, digits, . _ and -"),
        (["metrics", "--metrics-port", "70000"], "--metrics-port 70000: write a number from 0 to 65535"),
    ],
)
def test_what_is_wrong_is_said_before_spark_is_started(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "run", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_help_on_a_pipeline_lists_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "run", "replay", "--help"]) == 0
    printed = capsys.readouterr().out

    assert "LAKE -> topics of the cluster" in printed
    for option in ("--until VALUE", "--verify  ", "--master", "--metrics-port"):
        assert option in printed


def test_neither_listing_nor_showing_imports_pyspark() -> None:
    code = "from qanat.app.main import run; run(['pipeline', 'list']); import sys; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"


def test_progress_is_a_line_per_batch_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineDisplay("metrics")
    lines.show([TALLY])
    lines.show([TALLY])

    assert capsys.readouterr().err == line(TALLY) + "\n"
    assert line(TALLY) == (
        "metrics-rollup: batch 3, 1,000 rows, 400 rows/s, lag 7, watermark 2026-01-01T00:00:00.000Z, "
        "state 12 rows, 34 KB, 5 duplicates, 6 late"
    )
    assert table([TALLY]).row_count == 1


def test_a_query_that_started_again_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Where Java was killed, another one counts its batches from the beginning."""
    lines, again = LineDisplay("metrics"), replace(TALLY, batches=1)
    for tally in (TALLY, replace(TALLY, batches=0), again, again):
        lines.show([tally])

    assert capsys.readouterr().err.splitlines() == [line(TALLY), line(again)]


def test_prometheus_reads_the_progress() -> None:
    families = {family.name: family.samples for family in text_string_to_metric_families(exposition([QUERY]))}

    assert families["qanat_pipeline_rows"][0].value == 1000
    assert families["qanat_pipeline_lag_records"][0].labels == {"query": "metrics-rollup"}
    assert families["qanat_pipeline_lag_records"][0].value == 8
    assert families["qanat_pipeline_topic_lag_seconds"][0].labels == {"query": "metrics-rollup", "topic": "in"}
    assert [one.value for one in families["qanat_pipeline_topic_lag_seconds"]] == [2.5]
    assert families["qanat_pipeline_watermark_timestamp_seconds"][0].value == 1767225600


def test_the_exporter_serves_one_page() -> None:
    with Exporter(0) as exporter:
        exporter.read = lambda: [QUERY]
        with urllib.request.urlopen(exporter.address, timeout=30) as answer:
            assert 'qanat_pipeline_rows_total{query="metrics-rollup"} 1000' in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(exporter.address + "/x", timeout=30)


COPY = """\
name: copy
sources: {lines: {topic: lines}}
sinks: {out: {from: lines_out, topic: copied}}
steps: {lines_out: {sql: "select key, upper(string(value)) as value from lines"}}
checkpoint: %s
"""


@pytest.mark.long
def test_a_run_shows_progress_serves_it_and_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "copy.yaml"
    path.write_text(COPY % (tmp_path / "checkpoint"))
    with EmbeddedBroker() as broker:
        broker.create_topic("lines", partitions=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(10):
            producer.produce("lines", b"line %d" % number)
        assert producer.flush(60) == 0
        command = [sys.executable, "-m", "qanat.app", "pipeline", "run", str(path), "--master", "local[1]"]
        command += ["--metrics-port", "0", "-b", broker.bootstrap_servers, "--conf", "spark.ui.enabled=false"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        assert process.stderr is not None
        address, seen = "", []
        for text in process.stderr:
            seen.append(text)
            address = (re.findall(r"http://\S+", text) or [address])[0]
            if text.startswith("copy-out: batch 1, 10 rows"):
                break
        assert "copy-out: batch 1, 10 rows" in "".join(seen), "".join(seen)
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert 'qanat_pipeline_rows_total{query="copy-out"} 10' in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)

        assert process.returncode == 0
        assert out.startswith("copy-out: batch 1, 10 rows")
        assert [record.value for record in broker.records("copied")] == [b"LINE %d" % number for number in range(10)]


def test_a_pipeline_gets_the_security_settings_of_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does with that, Spark's own tests show."""
    requests: list[pipeline_runner.RunRequest] = []

    def run_here(_: object, given: pipeline_runner.RunRequest) -> list[object]:
        requests.append(given)
        return []

    monkeypatch.setattr(pipeline_runner, "run_here", run_here)
    monkeypatch.setenv("QANAT_CLIENT_SASL_PASSWORD", "hunter2")
    flags = ["security.protocol=SASL_SSL", "sasl.mechanisms=PLAIN", "sasl.username=alice", "acks=1"]
    command = ["pipeline", "run", "metrics", "-b", "kafka:9093", *(part for one in flags for part in ("-X", one))]

    assert run(command) == 0
    assert run([*command, "-X", "ssl.truststore.type=JKS"]) == 1
    assert [(one.bootstrap, one.client) for one in requests] == [
        (
            "kafka:9093",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "hunter2",
            },
        )
    ]
    assert "hunter2" not in repr(requests)
