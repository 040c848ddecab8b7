"""`qanat secure init`: what it writes, that a second run keeps it, and that a broker starts with it."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.servers.http.serving import served

from qanat.app import main
from qanat.app.client.client_settings import settings_of_file
from qanat.app.secure.secure_setup import SecureFiles
from qanat.app.settings.loading import flag, load
from qanat.security.certificates import certificates_in


def init(folder: Path, *words: str) -> SecureFiles:
    assert main.run(["secure", "init", "--data-dir", str(folder), *words]) == 0
    return SecureFiles.of(str(folder))


def test_all_files_are_private_and_a_second_run_keeps_them(tmp_path: Path) -> None:
    files = init(tmp_path / "data", "--host", "queue-1.example")
    before = {path: path.read_bytes() for path in files.folder.iterdir()}
    init(tmp_path / "data", "--host", "queue-1.example")

    assert {path: path.read_bytes() for path in files.folder.iterdir()} == before
    assert [path for path in (files.folder, *before) if path.stat().st_mode & 0o077] == []
    assert len(before) == 6


def test_a_renewed_certificate_is_another_one_of_the_same_authority(tmp_path: Path) -> None:
    files = init(tmp_path / "data")
    before, password = files.broker.read_bytes(), files.client.read_bytes()
    init(tmp_path / "data", "--renew")

    assert files.broker.read_bytes() != before
    assert files.client.read_bytes() == password
    for pem in (before, files.broker.read_bytes()):
        (tmp_path / "one.pem").write_bytes(pem)
        command = ["openssl", "verify", "-CAfile", str(files.authority), "-x509_strict", str(tmp_path / "one.pem")]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert [one.subject for one in certificates_in(files.broker.read_bytes())] == ["CN=qanat-broker"]


def test_without_the_key_of_the_authority_nothing_is_signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = init(tmp_path / "data")
    files.authority_key.unlink()
    init(tmp_path / "data")

    assert main.run(["secure", "init", "--data-dir", str(tmp_path / "data"), "--renew"]) == 1
    assert "authority.key is missing" in capsys.readouterr().err


def test_a_broker_starts_with_the_settings_and_knows_its_administrator(tmp_path: Path) -> None:
    files = init(tmp_path / "data")
    free = [flag("port", 0, "--port"), flag("http.port", -1, "-X")]
    with served(load(free, files.folder / "broker.yaml", {}).settings) as node:
        client = settings_of_file(str(files.client)).values
        settings = {
            "bootstrap.servers": node.node.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": client["sasl.mechanism"],
            "sasl.username": client["sasl.username"],
            "ssl.ca.location": str(files.authority),
        }
        assert AdminClient({**settings, "sasl.password": client["sasl.password"]}).list_topics(timeout=60).brokers
        with pytest.raises(KafkaException):
            AdminClient({**settings, "sasl.password": "guess", "log_level": 0}).list_topics(timeout=3)


def test_the_authority_is_one_that_python_trusts_strictly(tmp_path: Path) -> None:
    files = init(tmp_path / "data")
    context = ssl.create_default_context(cafile=str(files.authority))

    assert [one["subject"][0][0][1].startswith("Qanat authority of") for one in context.get_ca_certs()] == [True]


def test_a_secure_cluster_does_not_come_up_open_by_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(tmp_path / "data")

    assert main.run(["cluster", "up", "--data-dir", str(tmp_path / "data")]) == 1
    assert "add --secure" in capsys.readouterr().err
