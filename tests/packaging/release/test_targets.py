"""Each CPython that the metadata names has wheels, and each wheel a tag that pip understands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.tags import parse_tag
from packaging.version import Version
from tools.release import targets
from tools.release.targets import GLIBC, TARGETS, have_headers
from tools.toolchains.debian_packages import Package, architecture
from tools.toolchains.registries import MissingToolError

from qanat import __version__

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "Programming Language :: Python :: 3."


@pytest.mark.parametrize("project", [ROOT, ROOT / "qanat-client"])
def test_there_are_wheels_for_the_pythons_that_the_metadata_names(project: Path) -> None:
    classifiers = tomllib.loads((project / "pyproject.toml").read_text())["project"]["classifiers"]

    named = ["3." + one.removeprefix(PREFIX) for one in classifiers if one.startswith(PREFIX)]

    assert named == [target.version for target in TARGETS]


def test_qanat_requires_the_client_of_its_own_version() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]

    assert f"qanat-client=={__version__}" in required
    assert Version(__version__) >= Version("0.2.0")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.version)
def test_a_tag_names_one_python_and_an_old_glibc(target: targets.Target) -> None:
    (tag,) = parse_tag(target.tag)

    assert tag.interpreter == tag.abi == target.abi
    assert tag.platform.startswith(f"manylinux_{GLIBC.replace('.', '_')}_")


def test_headers_that_are_kept_are_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_OFFLINE", "1")
    target = targets.Target("3.12", "", Package("http://registry.invalid/headers.deb", ""))
    with pytest.raises(MissingToolError, match="forbids to fetch"):
        have_headers(target, tmp_path)
    (tmp_path / f"python-headers-3.12-{architecture()}").mkdir()

    assert have_headers(target, tmp_path)[0].name == "python3.12"
