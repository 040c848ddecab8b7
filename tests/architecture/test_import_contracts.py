"""Imports follow the layers, and a forbidden import breaks a contract."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources and their contracts, for tests that put back what they change."""
    root = tmp_path_factory.mktemp("copied")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture
def change(copied: Path) -> Iterator[Callable[[str, str], None]]:
    """Adds a line to a module of the copy, which need not exist; both are as before when the test has ended."""
    undone = contextlib.ExitStack()

    def add(module: str, line: str) -> None:
        path = copied / "src" / module
        if not path.parent.exists():
            path.parent.mkdir()
            undone.callback(path.parent.rmdir)
        if path.exists():
            undone.callback(path.write_bytes, path.read_bytes())
        else:
            undone.callback(path.unlink)
        with path.open("a") as file:
            file.write(f"\n{line}\n")

    with undone:
        yield add


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("qanat/model/ids.py", "import qanat.wire.crc"),
        ("qanat/groups/__init__.py", "import qanat.transactions"),
        ("qanat/log/segments/indexes.py", "import qanat.log.partition_log"),
        ("qanat/log/retention.py", "import qanat.log.truncation"),
        ("qanat/spark/__init__.py", "import qanat.broker"),
        ("qanat/client/settings.py", "import qanat.spark"),
        ("qanat/spark/options/__init__.py", "import qanat.wire.kafka.messages.produce"),
        ("qanat/servers/http/paging.py", "import qanat.servers.kafka.listener"),
        ("qanat/servers/kafka/codec_worker.py", "import qanat.servers.http.paging"),
        ("qanat/testing/__init__.py", "import qanat.app.main"),
        ("qanat/testing/__init__.py", "import pyspark"),
        ("qanat/wire/crc.py", "import time"),
        ("qanat/cluster/__init__.py", "from os import path"),
        ("qanat/app/settings/__init__.py", "import qanat.app.node.node"),
        ("qanat/spark/options/__init__.py", "import qanat.spark.sink.writers"),
        ("qanat/attic/__init__.py", ""),
        ("qanat/broker/replicas/fetch.py", "import qanat.broker.share.share_fetch"),
        ("qanat/broker/settings/setting_kinds.py", "import qanat.broker.runtime.peers"),
        ("qanat/broker/runtime/peers.py", "if TYPE_CHECKING:\n    from qanat.broker.broker import Broker"),
        ("qanat/broker/attic.py", ""),
    ],
)
def test_a_forbidden_import_breaks_a_contract(
    copied: Path, change: Callable[[str, str], None], module: str, line: str
) -> None:
    change(module, line)

    result = lint_imports(copied)

    assert result.returncode == 1, result.stdout + result.stderr


def test_what_a_test_changed_is_put_back(copied: Path) -> None:
    result = lint_imports(copied)

    assert result.returncode == 0, result.stdout + result.stderr
