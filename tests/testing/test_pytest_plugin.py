"""The plug-in provides its fixtures, and costs other tests nothing: no time, no warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from qanat.testing import EmbeddedBroker


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)


def test_each_test_has_a_broker_of_its_own(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        "import pytest\n"
        "@pytest.mark.parametrize('turn', [1, 2])\n"
        "def test_alone(qanat_broker, turn):\n"
        "    assert qanat_broker.topics() == []\n"
        "    qanat_broker.create_topic('mine')\n"
        "def test_first(qanat_broker_session):\n"
        "    qanat_broker_session.create_topic('ours')\n"
        "def test_second(qanat_broker_session):\n"
        "    assert qanat_broker_session.topics() == ['ours']\n",
    )

    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout


def test_a_run_that_does_not_ask_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        "import sys\n"
        "def test_unrelated():\n"
        "    ours = sorted(name for name in sys.modules if name.split('.')[0] == 'qanat')\n"
        "    assert ours == ['qanat', 'qanat.testing', 'qanat.testing.pytest_plugin']\n"
        "    assert 'asyncio' not in sys.modules or 'qanat.app' not in sys.modules\n",
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_fixture_is_the_broker(qanat_broker: EmbeddedBroker) -> None:
    host, _, port = qanat_broker.bootstrap_servers.rpartition(":")

    assert host == "127.0.0.1"
    assert int(port) > 0
