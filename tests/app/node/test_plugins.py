"""Storage engines by name: built-in ones, one of a package, and errors of those that are not installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.compose import open_log_directory
from qanat.app.node.plugins import storage_engine
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.model.errors import StorageError, UnknownStorageEngineError
from qanat.model.ids import TopicPartition

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "extending" / "storage-engines.md"
SETTINGS = DirectorySettings()

USE_OF_IT = """
    import os, sys
    from qanat.app.node.compose import open_log_directory
    from qanat.log.admission import admit
    from qanat.log.flush_state import begin_flush
    from qanat.log.background_jobs import run_now
    from qanat.log.retention import begin_retention
    from qanat.log.settings import LogSettings
    from qanat.model.ids import TopicPartition
    from qanat.wire.records import Record, encode_batch

    settings = LogSettings(segment_bytes=300, retention_bytes=300)
    directory = open_log_directory(sys.argv[1], engine="wastebasket", topic_settings=lambda _: settings)
    log = directory.create(TopicPartition("t", 0), "id", settings)
    batch = encode_batch([Record(0, 1_700_000_000_000, b"key", b"value" * 10)])
    for _ in range(20):
        log.append(admit(bytes(batch), settings, 1_700_000_000_000, 1 << 20), 0, 0)
    run_now(begin_flush(log))
    log.advance_high_watermark(20)
    run_now(begin_retention(log, 0))
    directory.close()
    again = open_log_directory(sys.argv[1], engine="wastebasket", topic_settings=lambda _: settings)
    log = again.logs[TopicPartition("t", 0)]
    print(type(again.files).__name__, again.was_clean, log.log_start_offset > 0, log.end_offset)
    print(sorted(os.listdir(sys.argv[1] + "/t-0.wastebasket"))[0])
    again.close()
"""


def test_the_engines_that_come_along_are_found_by_name() -> None:
    assert isinstance(storage_engine("file", SETTINGS).files, OsFiles)
    assert isinstance(storage_engine("mmap", SETTINGS).files, OsFiles)
    assert isinstance(storage_engine("memory", SETTINGS).files, MemoryFiles)


@pytest.mark.parametrize("name", ["flie", "", "os", "qanat.adapters.storage_engines:FileEngine"])
def test_an_unknown_engine_is_refused_with_those_that_are_installed(name: str) -> None:
    with pytest.raises(UnknownStorageEngineError, match=r"no storage engine .*; installed are .*file, memory, mmap"):
        storage_engine(name, SETTINGS)


@pytest.mark.parametrize("engine", ["file", "mmap", "memory"])
def test_a_directory_lives_in_the_engine_that_was_chosen(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "data"
    directory = open_log_directory(f"{path}/", engine=engine)
    directory.create(TopicPartition("t", 0), "id", LogSettings())
    directory.close()

    assert path.exists() == (engine != "memory")
    if engine != "memory":
        assert open_log_directory(str(path), engine=engine).was_clean


def test_an_engine_may_be_handed_in_and_outlives_its_directories() -> None:
    engine = MemoryEngine(SETTINGS)
    directory = open_log_directory("/data", engine=engine)
    directory.create(TopicPartition("t", 0), "id", LogSettings())
    directory.close()
    directory = open_log_directory("/data", engine=engine)

    assert directory.was_clean
    assert list(directory.logs) == [TopicPartition("t", 0)]


def test_the_example_of_the_page_is_installed_and_used(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2])
    package, target = tmp_path / "qanat-wastebasket", tmp_path / "site"
    package.mkdir()
    (package / "pyproject.toml").write_text(blocks["toml"])
    (package / "qanat_wastebasket.py").write_text(blocks["python"])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *offline, str(package)], check=True, capture_output=True, text=True)

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USE_OF_IT), str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["WastebasketFiles True True 20", "0-00000000000000000000.log"]


@pytest.mark.parametrize("target", ["qanat_nowhere:Engine", "qanat.adapters.storage_engines:NoSuchEngine"])
def test_an_engine_that_cannot_be_loaded_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[qanat.storage_engines]\nbroken = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(StorageError, match=f"'broken' is installed as {target} but cannot be loaded: .*; repair or"):
        storage_engine("broken", SETTINGS)
    with pytest.raises(UnknownStorageEngineError, match="installed are broken, file, memory, mmap"):
        storage_engine("other", SETTINGS)
