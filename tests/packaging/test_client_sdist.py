"""The sdist of `qanat-client`: complete by itself, for machines that no compiled wheel is for."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import hatch_build
import pytest
from tests.packaging.building import ROOT, build_sdist, build_wheel
from tools.toolchains.unpacking import unpack_into


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist's files, with nothing of the checkout beside them."""
    folder = tmp_path_factory.mktemp("sdist")
    sdist = build_sdist(ROOT / "qanat-client", folder / "dist")
    with tarfile.open(sdist) as archive:
        unpack_into(folder, archive)
    return folder / sdist.name.removesuffix(".tar.gz")


def test_the_wheel_of_the_sdist_holds_what_that_of_the_checkout_does(unpacked: Path, tmp_path: Path) -> None:
    wheel, _ = build_wheel(unpacked, tmp_path, QANAT_PURE="1")

    with zipfile.ZipFile(wheel) as files:
        found = {name for name in files.namelist() if ".dist-info/" not in name}
    assert found == set(hatch_build.client_files().values())


def test_an_sdist_of_the_sdist_is_the_same(unpacked: Path, tmp_path: Path) -> None:
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    before = {name for name in files if "__pycache__" not in name}  # Of the hook, where a build has run.
    with tarfile.open(build_sdist(unpacked, tmp_path)) as archive:
        again = {name.partition("/")[2] for name in archive.getnames()}

    assert again - {"PKG-INFO"} == before - {"PKG-INFO"}


def test_no_path_of_its_project_leads_out_of_it(unpacked: Path) -> None:
    assert '"../' in (ROOT / "qanat-client" / "pyproject.toml").read_text()
    assert '"../' not in (unpacked / "pyproject.toml").read_text()
