"""Sessions that nobody has prepared: Spark finds `format("qanat")` by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qanat.spark.error_messages import HIDE
from qanat.spark.session import require_java
from qanat.spark.spark_version import UnsupportedSparkError, require_supported
from qanat.testing import EmbeddedBroker

PROGRAM = Path(__file__).with_name("bare_session.py")


@pytest.mark.parametrize("kind", ["classic", pytest.param("connect", marks=pytest.mark.long)])
def test_a_bare_session_reads_and_writes_topics(qanat_broker: EmbeddedBroker, kind: str, tmp_path: Path) -> None:
    require_java()
    qanat_broker.create_topic("orders")
    command = [sys.executable, str(PROGRAM), kind, qanat_broker.bootstrap_servers, "orders"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}

    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)

    assert ran.returncode == 0, ran.stderr
    read, seen, refused = ran.stdout.splitlines()
    assert (read, seen) == ("read 5", "seen 5")
    assert refused.endswith("write CREATE TEMPORARY VIEW name USING qanat OPTIONS (...) instead of CREATE TABLE")


@pytest.mark.parametrize("version", ["4.2.0", "4.3.1", "4.3.0.dev1"])
def test_spark_4_2_and_4_3_are_supported(version: str) -> None:
    require_supported(version)


@pytest.mark.parametrize("version", ["3.5.9", "4.1.4", "4.20.0", "5.0.0"])
def test_other_versions_of_spark_are_refused_with_the_remedy(version: str) -> None:
    with pytest.raises(UnsupportedSparkError, match=r"4\.2 and 4\.3: pip install"):
        require_supported(version)


def test_a_version_without_data_sources_in_python_is_refused_with_the_same_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pyspark

    import qanat.spark

    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    monkeypatch.delitem(sys.modules, "qanat.spark.source", raising=False)
    monkeypatch.delattr(qanat.spark, "source", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)

    with pytest.raises(UnsupportedSparkError, match=r"^PySpark 3\.5\.9 is installed"):
        qanat.spark.register(None)  # type: ignore[arg-type]


def test_a_session_that_registers_nothing_refuses_another_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from qanat.spark import source

    monkeypatch.delenv(HIDE, raising=False)
    monkeypatch.setattr(source, "__version__", "4.1.4")

    with pytest.raises(UnsupportedSparkError, match=r"^PySpark 4\.1\.4 is installed; Qanat works with 4\.2 and 4\.3"):
        source.QanatDataSource({})
    assert os.environ.pop(HIDE) == "1", "Spark shows the sentence without a traceback"
