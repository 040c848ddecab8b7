"""The files of wheels and sdist: users get the product, developers what tests and measures it."""

from __future__ import annotations

import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import hatch_build
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from qanat import __version__

ROOT = Path(__file__).resolve().parents[2]
UNSHIPPED = {"demo", "tools", "tests", "sim", "bug_bank", "chaos", "mutants", "scenarios"}
"""Names of folders and modules with scenarios, known bugs, the demo or tools."""


@pytest.fixture(scope="module")
def wheel() -> set[PurePosixPath]:
    """What hatchling would put into the wheel, without the compiled modules; nothing is built."""
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    return {PurePosixPath(file.distribution_path) for file in files}


@pytest.fixture(scope="module")
def client_wheel() -> set[PurePosixPath]:
    return {PurePosixPath(path) for path in hatch_build.client_files().values()}


def project(path: str) -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / path).read_text())["project"])


@pytest.fixture(scope="module")
def sdist() -> set[str]:
    files = SdistBuilder(str(ROOT)).recurse_included_files()
    return {PurePosixPath(file.distribution_path).as_posix() for file in files}


def test_the_wheel_holds_the_package_and_its_name_for_spark(wheel: set[PurePosixPath]) -> None:
    assert {path.parts[0] for path in wheel} == {"pyspark_qanat", "qanat"}
    for needed in ("qanat/app/main.py", "qanat/testing/simulation/disk.py", "qanat/spark/log4j2.properties"):
        assert PurePosixPath(needed) in wheel


def test_every_file_of_the_package_is_in_one_of_the_two_wheels(
    wheel: set[PurePosixPath], client_wheel: set[PurePosixPath]
) -> None:
    source = ROOT / "src"
    built = (".so", ".pyc")
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in built}

    assert wheel & client_wheel == set()
    assert wheel | client_wheel == {PurePosixPath(path) for path in files}


def test_the_wheel_of_the_client_holds_the_client_and_what_it_stands_on(client_wheel: set[PurePosixPath]) -> None:
    for needed in ("qanat/__init__.py", "qanat/py.typed", "qanat/client/app/app.py", "qanat/wire/crc.py"):
        assert PurePosixPath(needed) in client_wheel


def test_the_two_wheels_are_of_one_version() -> None:
    required = [one for one in project("pyproject.toml")["dependencies"] if one.startswith("qanat-client")]

    assert required == [f"qanat-client=={__version__}"]


def test_both_wheels_want_the_same_versions_of_what_both_need() -> None:
    whole, client = project("pyproject.toml"), project("qanat-client/pyproject.toml")

    assert set(client["dependencies"]) <= set(whole["dependencies"])
    assert client["requires-python"] == whole["requires-python"]
    assert client["classifiers"] == whole["classifiers"]
    assert (ROOT / "qanat-client/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_wheel_holds_no_scenario_no_bug_and_no_demo(wheel: set[PurePosixPath]) -> None:
    named = [path for path in sorted(wheel) if UNSHIPPED & {*path.parts[:-1], path.stem}]

    assert named == []


def test_the_sdist_holds_what_the_tests_and_targets_need(sdist: set[str]) -> None:
    needed = [
        ".ci/run",
        "Makefile",
        "bench/driver.c",
        "constraints.txt",
        "demo/__main__.py",
        "hatch_build.py",
        "qanat-client/pyproject.toml",
        "tests/conformance/differences.yaml",
        "tools/codec/records.json",
        "verify/chaos/failing_disk.c",
        "verify/clusters/bug_bank/bank.py",
        "verify/mutants/core.yaml",
    ]

    assert [name for name in needed if name not in sdist] == []
