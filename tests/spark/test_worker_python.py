"""Workers run this Python with its installed PySpark, even if Spark puts another one on their path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import QUIET

from qanat.spark import register
from qanat.spark.worker_python import forked_when_registered, worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOW = "import os, sys; print(sys.executable); print(sys.argv[1:]); print(os.environ.get('PYTHONPATH'))"


def ran(path: str, *arguments: str) -> list[str]:
    command = [worker_python("local[2]", None), "-c", SHOW, *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (
            "/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip:/s/jars/spark-core.jar",
            "/s/jars/spark-core.jar",
        ),
        ("/a b/*:/s/python/lib/pyspark.zip:/c", "/a b/*:/c"),
        ("/s/python/lib/pyspark.zip", ""),
        ("/mine/pyspark.zip:/mine/python", "/mine/pyspark.zip:/mine/python"),
        ("", ""),
    ],
    ids=["spark's", "in between", "nothing else", "the user's own", "nothing"],
)
def test_archives_of_spark_are_left_out_of_the_path(path: str, kept: str) -> None:
    assert ran(path, "a b", "$HOME", "") == [sys.executable, repr(["a b", "$HOME", ""]), kept]


def test_workers_elsewhere_and_of_another_spark_run_python_itself() -> None:
    assert worker_python("spark://host:7077", None) == sys.executable
    assert worker_python("", None) == sys.executable
    assert worker_python("local[2]", "/opt/spark") == sys.executable


def test_spark_submit_of_the_installed_pyspark_is_no_other_spark() -> None:
    import pyspark

    assert worker_python("local[2]", str(Path(pyspark.__file__).parent)) == worker_python("local[2]", None)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn"])
def test_a_cluster_keeps_the_python_of_its_executors(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context = SimpleNamespace(master=master, pythonExec="python3")
    remote: Any = SimpleNamespace(sparkContext=context)

    with forked_when_registered(remote):
        assert context.pythonExec == "python3"


def test_a_session_of_spark_connect_has_no_python_here() -> None:
    remote: Any = SimpleNamespace()

    with forked_when_registered(remote):
        assert not vars(remote)


Registered = Callable[[str], str]


@pytest.fixture
def registered(spark: SparkSession) -> Iterator[Registered]:
    """Registers the format in a session with a Python, and returns the Python that Spark starts for the format."""
    context = spark.sparkContext
    before = context.pythonExec

    def registered(python: str) -> str:
        context.pythonExec = python
        register(spark)
        assert context.pythonExec == python, "functions of the user go on with the session's Python"
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        return str(manager.lookupDataSource("qanat").dataSourceCls().pythonExec())

    yield registered
    context.pythonExec = before
    register(spark)


@QUIET
def test_processes_of_a_format_that_a_user_registers_are_forked(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = worker_python("local[2]", None)
    another = tmp_path / "python3"
    another.symlink_to(sys.executable)

    assert launcher != sys.executable
    assert registered(sys.executable) == launcher
    assert registered(str(another)) == str(another), "a Python that the user has chosen stays"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert registered("python3") == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert registered("python3") == launcher, "nobody has chosen one"


@QUIET
def test_workers_import_what_is_installed(spark: SparkSession) -> None:
    def place(_: int) -> str:
        import pyspark

        return pyspark.__file__

    import pyspark

    assert spark.sparkContext.parallelize([0], 1).map(place).collect() == [pyspark.__file__]
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "the launcher goes with this process; its children may stay"
