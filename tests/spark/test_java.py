"""Spark's Java: the configured one, if it is new enough."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from qanat.spark import java
from qanat.spark.java import NoJavaError, require_java
from qanat.spark.java_process import hide_its_end


def pretend(folder: Path, version: str) -> Path:
    """A program that says it is a Java of that version, as `bin/java` of a folder."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS' >&2\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "_USUAL_PLACES", (str(tmp_path / "usual"),))


def test_the_java_that_java_home_names_is_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = pretend(tmp_path / "named", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))

    assert require_java() == str(program)


@pytest.mark.parametrize(("version", "expected"), [("11.0.2", "is version 11"), ("1.8.0_391", "is version 8")])
def test_an_old_java_is_refused_with_what_was_found_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, expected: str
) -> None:
    program = pretend(tmp_path / "named", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    with pytest.raises(NoJavaError) as refused:
        require_java()

    assert str(refused.value).startswith(
        f"Spark needs Java 17 or newer, but {program} {expected} (JAVA_HOME). Install one"
    )


def test_a_newer_one_in_a_usual_place_is_taken_instead_of_an_old_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = pretend(tmp_path / "old", "11.0.2")
    new = pretend(tmp_path / "usual" / "java-17", "17.0.2")
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    assert require_java() == str(new)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "usual" / "java-17")


def test_an_old_java_and_none_at_all_have_different_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoJavaError, match=r"^Spark needs Java 17 or newer and none was found\. Install one"):
        require_java()
    old = pretend(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(NoJavaError, match=r"old/bin/java is version 11\. Install one"):
        require_java()
    old.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(NoJavaError, match=r"does not say its version\. Install one"):
        require_java()


def test_a_java_that_ends_leaves_no_tracebacks(capfd: pytest.CaptureFixture[str]) -> None:
    """py4j logs to the root logger, and Spark's server of accumulators prints, for each connection that ends."""
    from pyspark.accumulators import AccumulatorTCPServer

    logger = logging.getLogger()
    handle_error, filters = AccumulatorTCPServer.handle_error, list(logger.filters)
    try:
        hide_its_end()
        hide_its_end()
        said = logger.makeRecord("root", logging.ERROR, "/py4j/clientserver.py", 1, "no answer", (), None)
        other = logger.makeRecord("root", logging.ERROR, "/user/job.py", 1, "no order", (), None)

        assert (bool(logger.filter(said)), bool(logger.filter(other))) == (False, True)
        assert len(logger.filters) == len(filters) + 1
        AccumulatorTCPServer.handle_error(None, None, ("127.0.0.1", 1))  # type: ignore[arg-type]
        assert capfd.readouterr().err == ""
    finally:
        logger.filters[:] = filters
        vars_of: Any = AccumulatorTCPServer
        vars_of.handle_error = handle_error
