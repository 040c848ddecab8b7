"""Imports follow the layers, and a forbidden import breaks a contract."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of `root/pyproject.toml` on the sources below `root/src`."""
    # The command line as a module, so that the sources of `root` come first and not the installed ones.
    program = (
        "import sys; sys.path.insert(0, 'src');"
        "from importlinter.cli import lint_imports_command as command;"
        "command(['--no-cache'])"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=100)


FORBIDDEN = (
    ("qanat/model/ids.py", "import qanat.wire.crc", "qanat.model.ids -> qanat.wire.crc "),
    ("qanat/groups/__init__.py", "import qanat.transactions", "qanat.groups -> qanat.transactions "),
    (
        "qanat/log/segments/indexes.py",
        "import qanat.log.partition_log",
        "qanat.log.segments.indexes -> qanat.log.partition_log ",
    ),
    ("qanat/log/retention.py", "import qanat.log.truncation", "qanat.log.retention -> qanat.log.truncation "),
    ("qanat/spark/__init__.py", "import qanat.broker", "qanat.spark -> qanat.broker "),
    ("qanat/client/settings.py", "import qanat.spark", "qanat.client.settings -> qanat.spark "),
    (
        "qanat/spark/options/__init__.py",
        "import qanat.wire.kafka.messages.produce",
        "qanat.spark.options -> qanat.wire.kafka.messages.produce ",
    ),
    (
        "qanat/servers/http/paging.py",
        "import qanat.servers.kafka.listener",
        "qanat.servers.http.paging -> qanat.servers.kafka.listener ",
    ),
    (
        "qanat/servers/kafka/codec_worker.py",
        "import qanat.servers.http.paging",
        "qanat.servers.kafka.codec_worker -> qanat.servers.http.paging ",
    ),
    ("qanat/testing/__init__.py", "import qanat.app.main", "qanat.testing -> qanat.app.main "),
    ("qanat/testing/__init__.py", "import pyspark", "qanat.testing -> pyspark "),
    ("qanat/wire/crc.py", "import time", "qanat.wire.crc -> time "),
    ("qanat/cluster/__init__.py", "from os import path", "qanat.cluster -> os "),
    ("qanat/app/settings/__init__.py", "import qanat.app.node.node", "qanat.app.settings -> qanat.app.node.node "),
    (
        "qanat/spark/options/__init__.py",
        "import qanat.spark.sink.writers",
        "qanat.spark.options -> qanat.spark.sink.writers ",
    ),
    ("qanat/attic/__init__.py", "", "- qanat.attic\n"),
    (
        "qanat/broker/replicas/fetch.py",
        "import qanat.broker.share.share_fetch",
        "qanat.broker.replicas.fetch -> qanat.broker.share.share_fetch ",
    ),
    (
        "qanat/broker/settings/setting_kinds.py",
        "import qanat.broker.runtime.peers",
        "qanat.broker.settings.setting_kinds -> qanat.broker.runtime.peers ",
    ),
    (
        "qanat/broker/runtime/peers.py",
        "if TYPE_CHECKING:\n    from qanat.broker.broker import Broker",
        "qanat.broker.runtime.peers -> qanat.broker.broker ",
    ),
    ("qanat/broker/attic.py", "", "- qanat.broker.attic\n"),
)
"""A module, the line that is added to it, and what the report says then."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said about a copy of the sources with every forbidden line, once for all of them."""
    root = tmp_path_factory.mktemp("copied")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", root)
    assert lint_imports(root).returncode == 0
    for module, line, _ in FORBIDDEN:
        path = root / "src" / module
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write(f"\n{line}\n")
    result = lint_imports(root)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout.partition("Broken contracts")[2]


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("module", "line", "sentence"), FORBIDDEN)
def test_a_forbidden_import_breaks_a_contract(report: str, module: str, line: str, sentence: str) -> None:
    assert sentence in report, f"{line} in {module} breaks no contract"
