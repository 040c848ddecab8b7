"""`qanat cluster up --secure`: a protected cluster in one command, and nothing open."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.app.cluster.test_protected_up import IN_TIME_S, is_answered, writes_and_reads
from tests.app.cluster.test_up import _base_port

from qanat.app import main
from qanat.app.client.client_settings import settings_of_file
from qanat.app.cluster.cluster_plan import INTER_BROKER_OFFSET
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.registry import ApiKey


def test_a_secure_cluster_serves_its_administrator_and_no_one_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = _base_port()
    words = ["cluster", "up", "--secure", "--brokers", "2", "--port", str(port), "--http-port", str(port + 10)]
    up = [sys.executable, "-m", "qanat.app", *words]
    with subprocess.Popen(up, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while "  data " not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            folder = tmp_path / "data" / "security"
            assert f"https://127.0.0.1:{port + 10} " in printed
            assert f"qanat topic list --command-config {folder / 'client.properties'}" in printed
            assert all(one.stat().st_mode & 0o077 == 0 for one in (tmp_path / "data", folder, *folder.iterdir()))
            client = settings_of_file(str(folder / "client.properties")).values
            assert client["sasl.password"] not in printed
            names = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
            writes_and_reads(
                {**{name: client[name] for name in names}, "ssl.ca.location": str(folder / "authority.pem")}
            )

            listed = ["topic", "list", "--command-config", str(folder / "client.properties"), "-o", "json"]
            assert main.run(listed) == 0
            assert "orders" in [row["topic"] for row in json.loads(capsys.readouterr().out)]
            for one in (port, port + 1, port + INTER_BROKER_OFFSET, port + INTER_BROKER_OFFSET + 1):
                assert not is_answered(one, ApiKey.METADATA, MetadataRequest([]))
            trusting = ssl.create_default_context(cafile=str(folder / "authority.pem"))
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"https://localhost:{port + 10}/api/v1/topics", timeout=60, context=trusting)
            process.send_signal(signal.SIGTERM)
            assert process.wait(IN_TIME_S) == 0
        finally:
            process.kill()
