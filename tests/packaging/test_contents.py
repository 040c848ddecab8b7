"""The files of wheel and sdist: users get the product, developers what tests and measures it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
UNSHIPPED = {"demo", "tools", "tests", "sim", "bug_bank", "chaos", "mutants", "scenarios"}
"""Names of folders and modules with scenarios, known bugs, the demo or tools."""


@pytest.fixture(scope="module")
def wheel() -> set[PurePosixPath]:
    """What hatchling would put into the wheel, without the compiled modules; nothing is built."""
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    return {PurePosixPath(file.distribution_path) for file in files}


@pytest.fixture(scope="module")
def sdist() -> set[str]:
    files = SdistBuilder(str(ROOT)).recurse_included_files()
    return {PurePosixPath(file.distribution_path).as_posix() for file in files}


def test_the_wheel_holds_the_package_and_its_name_for_spark(wheel: set[PurePosixPath]) -> None:
    assert {path.parts[0] for path in wheel} == {"pyspark_qanat", "qanat"}
    for needed in ("qanat/app/main.py", "qanat/testing/simulation/disk.py", "qanat/wire/crc.py", "qanat/py.typed"):
        assert PurePosixPath(needed) in wheel


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
        "tests/conformance/differences.yaml",
        "tools/codec/records.json",
        "verify/chaos/failing_disk.c",
        "verify/clusters/bug_bank/bank.py",
        "verify/mutants/core.yaml",
    ]

    assert [name for name in needed if name not in sdist] == []
