"""Settings: which source wins, which spellings work, and the errors of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.app.settings.catalogue import SETTINGS
from qanat.app.settings.environment import variable_of
from qanat.app.settings.loading import Loaded, assignment, load
from qanat.app.settings.settings_page import page
from qanat.model.errors import InvalidSettingError

ROOT = Path(__file__).resolve().parents[2]

APPLICATION = """\
broker:
  node:
    id: ${NODE_ID:local-001}

  storage:
    type: mmap
    data-dir: ${DATA_DIR:./data}
    segment-size: 1073741824  # 1GB

  network:
    type: tcp
    port: ${BROKER_PORT:9092}
    threads:
      boss: 2
      worker: 16

  registry:
    url: ${REGISTRY_URL:http://localhost:8080}
    poll-interval: 30000

  pipe:
    poll-interval: 1000
    batch-size: 100
"""

TARANTOOL = """\
host: 0.0.0.0
port: 8080
memtx_dir: var/lib/tarantool/memtx
vinyl_dir: var/lib/tarantool/vinyl
default_partitions: 4
default_replication_factor: 1
default_retention_seconds: 604800
default_retention_bytes: 1073741824
acks: leader
retries: 3
retry_backoff_ms: 100
max_poll_records: 500
session_timeout_ms: 30000
request_timeout_ms: 30000
"""


def loaded(*assignments: str, file: Path | None = None, **environment: str) -> Loaded:
    return load([assignment(text) for text in assignments], file, environment)


def written(tmp_path: Path, text: str, name: str = "qanat.yml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(*assignments: str, file: Path | None = None, **environment: str) -> str:
    with pytest.raises(InvalidSettingError) as caught:
        loaded(*assignments, file=file, **environment)
    return str(caught.value)


def test_nothing_given_is_the_defaults() -> None:
    result = loaded()

    assert (result.settings.broker.port, result.settings.data_dir, result.settings.node_id) == (9092, "data", 0)
    assert result.notices == ()


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "num.partitions: 1\nport: 1\nmax.connections: 1\n")
    broker = loaded("port=3", file=file, QANAT_PORT="2", QANAT_MAX_CONNECTIONS="2").settings.broker

    assert (broker.num_partitions, broker.max_connections, broker.port) == (1, 2, 3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yml", "num.partitions: 3\nauto.create.topics.enable: no\n"),
        ("b.yml", "num: {partitions: 3}\nauto:\n  create.topics:\n    enable: false\n"),
        ("c.properties", "# Kafka's\nnum.partitions=3\nauto.create.topics.enable = false\n"),
    ],
)
def test_files_may_be_nested_dotted_or_properties(tmp_path: Path, name: str, text: str) -> None:
    broker = loaded(file=written(tmp_path, text, name)).settings.broker

    assert (broker.num_partitions, broker.auto_create_topics_enable) == (3, False)


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len({variable_of(name) for name in SETTINGS}) == len(SETTINGS)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    assert loaded(QANAT_CONFIG=str(written(tmp_path, "port: 7"))).settings.broker.port == 7


def test_topic_defaults_have_their_brokers_names() -> None:
    result = loaded("log.retention.ms=1000", "log.flush.interval.messages=10", "min.insync.replicas=1")

    assert result.settings.topic_defaults == {
        "flush.messages": "10",
        "min.insync.replicas": "1",
        "retention.ms": "1000",
    }


def test_the_plain_variables_of_older_scripts_are_understood() -> None:
    result = loaded(
        NODE_ID="local-001", BROKER_PORT="9193", DATA_DIR="./x", HTTP_PORT="8081", REGISTRY_URL="http://localhost:8080"
    )

    assert result.settings.node_id == "local-001"
    assert (result.settings.broker.port, result.settings.data_dir) == (9193, "./x")
    assert result.settings.http.http_port == 8081
    assert result.settings.edge.registry_url == "http://localhost:8080"
    assert result.notices == ()


def test_our_variables_win_over_plain_ones() -> None:
    assert loaded(BROKER_PORT="1", QANAT_PORT="2").settings.broker.port == 2


def test_an_application_yml_is_understood(tmp_path: Path) -> None:
    result = loaded(file=written(tmp_path, APPLICATION, "application.yml"), DATA_DIR="/elsewhere")

    assert (result.settings.node_id, result.settings.data_dir) == ("local-001", "/elsewhere")
    assert (result.settings.storage_engine, result.settings.broker.port) == ("mmap", 9092)
    assert result.settings.topic_defaults == {"segment.bytes": "1073741824"}
    assert len(result.notices) == 2
    assert any("threads.boss" in notice and "line 14" in notice for notice in result.notices)


def test_a_table_of_defaults_is_understood(tmp_path: Path) -> None:
    result = loaded(file=written(tmp_path, TARANTOOL))

    assert (result.settings.broker.host_name, result.settings.broker.num_partitions) == ("0.0.0.0", 4)
    assert result.settings.topic_defaults == {"retention.bytes": "1073741824", "retention.ms": "604800000"}
    http = result.settings.http
    assert (http.http_acks, http.http_max_poll_records, http.http_session_timeout_ms) == ("leader", 500, 30_000)
    assert len(result.notices) == 4


def test_kafkas_own_sample_file_is_understood(tmp_path: Path) -> None:
    text = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
    settings = loaded(file=written(tmp_path, text, "server.properties")).settings

    assert (settings.node_id, settings.data_dir) == (1, "/tmp/kraft-combined-logs")
    assert (settings.broker.host_name, settings.broker.port) == ("0.0.0.0", 9092)
    assert (settings.broker.advertised_host_name, settings.broker.advertised_port) == ("localhost", 9092)
    assert settings.topic_defaults["retention.ms"] == "604800000"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("num.partitons=3", "unknown setting 'num.partitons' (-X num.partitons); did you mean num.partitions?"),
        ("num.partitions=many", "num.partitions = 'many' (-X num.partitions=many): a whole number is expected"),
        ("num.partitions=0", "num.partitions = '0' (-X num.partitions=0): a whole number of at least 1 is expected"),
        (
            "log.segment.bytes=3",
            "log.segment.bytes = '3' (-X log.segment.bytes=3): Value must be at least 14",
        ),
        (
            "node.id=a/b",
            (
                "node.id = 'a/b' (-X node.id=a/b): write a number from 0 on, or a name that "
                "begins with a letter or digit and has also . _ -"
            ),
        ),
        ("log.dirs=a,b", "data.dir = 'a,b' (-X log.dirs=a,b): exactly one directory is needed"),
        (
            "listeners=SASL_TLS://:9092",
            (
                "listeners = 'SASL_TLS://:9092' (-X listeners=SASL_TLS://:9092): listener SASL_TLS is not known: a "
                "name is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, or has a protocol in "
                "listener.security.protocol.map"
            ),
        ),
        ("nonsense", "-X nonsense: write it as -X name=value"),
    ],
)
def test_a_mistake_is_named_with_its_place(given: str, sentence: str) -> None:
    assert refusal(given) == sentence


def test_a_mistyped_variable_is_an_error_with_the_nearest_name() -> None:
    message = refusal(QANAT_NUM_PARTITONS="3")

    assert message == "unknown environment variable QANAT_NUM_PARTITONS; did you mean QANAT_NUM_PARTITIONS?"


def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, "port: 1\nnum:\n  partitons: 3\n")

    assert refusal(file=file) == f"unknown setting 'num.partitons' ({file} line 3); did you mean num.partitions?"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1", "is not YAML"),
        ("- 1", "should hold settings"),
        ("port:", "has no value"),
        ("port: 1\nbroker.network.port: 2", "port is given twice"),
        ("data.dir: ${NOWHERE}", "there is no environment variable NOWHERE"),
        ("a: &a\n  b: *a", "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, part: str) -> None:
    assert part in refusal(file=written(tmp_path, text))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    assert refusal(file=tmp_path / "no.yml").endswith("no.yml: No such file or directory")


def test_yaml_is_not_loaded_where_there_is_no_file() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from qanat.app.settings.loading import load; load([], None, {}); print('yaml' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout == "False\n"


def test_the_page_of_settings_is_what_the_code_says() -> None:
    written_page = (ROOT / "docs" / "operating" / "settings.md").read_text()

    assert written_page == page(), "run: python -m qanat.app.settings.settings_page > docs/operating/settings.md"


def test_settings_that_must_fit_each_other_are_judged_together() -> None:
    given = [assignment(f"group.share.{one}") for one in ("session.timeout.ms=900", "heartbeat.interval.ms=300")]

    groups = load(given, None, {}).settings.groups
    assert (groups.group_share_session_timeout_ms, groups.group_share_heartbeat_interval_ms) == (900, 300)
    with pytest.raises(InvalidSettingError, match="must be below"):
        load(given[:1], None, {})
