"""`qanat config check` and `explain`: all errors at once with their places, and one setting in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qanat.app import main
from qanat.app.settings.catalogue import SETTINGS

WRONG = """\
num.partitions: many
prot: 9092
log:
  retention.ms: 86400000
  segment.bytes: -5
data.dir:
port: ${NO_SUCH_PORT}
listeners: [nonsense]
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_ID", "BROKER_PORT", "DATA_DIR", "HTTP_PORT", "NO_SUCH_PORT", "QANAT_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = main.run(["config", *arguments])
    out = capsys.readouterr()
    assert out.err == ""
    return code, out.out.splitlines()


def test_all_errors_are_shown_at_once_each_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text(WRONG)
    code, lines = said(capsys, "check", "--config", str(config), "-X", "node.id=-1", "-X", "nonsense")

    assert code == 1
    for number, words in (
        (1, "num.partitions = 'many'"),
        (2, "unknown setting 'prot'"),
        (5, "log.segment.bytes = '-5'"),
        (6, "data.dir"),
        (7, "there is no environment variable NO_SUCH_PORT"),
        (8, "'nonsense' is not a listener"),
    ):
        (line,) = [one for one in lines if f"{config} line {number}" in one]
        assert line.startswith("error")
        assert words in line
    assert [one for one in lines if "-X node.id=-1" in one]
    assert [one for one in lines if "-X nonsense: write it as -X name=value" in one]
    assert len(lines) == 8


def test_lines_of_a_properties_file_and_variables_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("broker.id=1\nnonsense\nnum.partitions=0\nnum.partitions=4\n")
    monkeypatch.setenv("QANAT_NUM_PARTITONS", "3")
    monkeypatch.setenv("QANAT_METADATA_STORE", "zookeeper")
    _, lines = said(capsys, "check", "--config", str(config))
    assert [one for one in lines if f"{config} line 2: 'nonsense' should read name=value" in one]
    assert [one for one in lines if "num.partitions is given twice" in one and f"{config} line 4" in one]
    assert [one for one in lines if "unknown environment variable QANAT_NUM_PARTITONS" in one]
    assert [one for one in lines if "environment variable QANAT_METADATA_STORE" in one]


def test_settings_that_do_not_fit_together_have_their_place_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("host.name: 0.0.0.0\nlistener.security.protocol: SASL_SSL\n")
    code, lines = said(capsys, "check", "--config", str(config))
    assert code == 1
    assert len(lines) == 1
    assert "has no certificate: set ssl.keystore.location" in lines[0]


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "check", "--config", str(tmp_path / "gone.yaml"))
    assert code == 1
    assert lines[0].startswith("error    cannot read the settings file")


def test_what_production_refuses_is_shown_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("auto.create.topics.enable: true\nauthorizer.class.name: StandardAuthorizer\n")
    assert said(capsys, "check", "-c", str(config))[0] == 0
    code, lines = said(capsys, "check", "-c", str(config), "--environment", "production")
    assert code == 1
    assert [line.split()[0] for line in lines] == ["refused"]
    assert f"(auto.create.topics.enable, {config} line 1)" in lines[0]
    code, lines = said(capsys, "check", "-c", str(config), "--profile", "staging")
    assert (code, [line.split()[0] for line in lines]) == (0, ["warning", "ok"])


def test_programs_read_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "check", "-X", "num.io.threads=8", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in rows] == ["notice", "ok"]


def test_a_secret_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("ssl.key.password: hunter2\nport: x\n")
    _, lines = said(capsys, "check", "-c", str(config))
    assert main.run(["config", "explain", "ssl.key.password", "-X", "ssl.key.password=hunter2"]) == 0
    assert "hunter2" not in "\n".join([*lines, capsys.readouterr().out])


def test_a_setting_is_explained_with_the_place_of_its_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("min.insync.replicas: 2\n")
    _, lines = said(capsys, "explain", "min.insync.replicas", "-c", str(config))
    found = dict(line.split(maxsplit=1) for line in lines)
    assert found["type"] == "whole number of at least 1"
    assert (found["default"], found["value"], found["source"]) == ("1", "2", f"{config} line 1")
    assert found["change"].startswith("while the broker runs")
    assert found["variable"] == "QANAT_MIN_INSYNC_REPLICAS"


@pytest.mark.parametrize("name", ["DATA_DIR", "QANAT_DATA_DIR", "log.dirs", "data.dir"])
def test_another_name_is_understood(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = said(capsys, "explain", name)
    found = dict(line.split(maxsplit=1) for line in lines)
    assert found["setting"] == "data.dir"
    assert "DATA_DIR" in found["also"]
    assert found["change"] == "at the next start"


@pytest.mark.parametrize(
    ("name", "words"),
    [("num.partition", "num.partitions"), ("zookeeper.connect", "has no effect")],
)
def test_an_unknown_or_idle_name_is_said(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "explain", name]) == 1
    assert words in capsys.readouterr().err


def test_every_setting_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SETTINGS:
        assert main.run(["config", "explain", name, "-o", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["meaning"]
        assert row["type"]
