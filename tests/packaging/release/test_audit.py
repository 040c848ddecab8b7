"""A wheel is compiled for the CPython in its name, every module of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tools.release.audit import AuditError, check_is_compiled

SUFFIX = ".cpython-312-x86_64-linux-gnu.so"


def _wheel(folder: Path, *names: str) -> Path:
    path = folder / "qanat-0.2.0-cp312-cp312-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("qanat/a.py", "qanat/a.pxd", "qanat/b.py", "qanat/b.pxd", "qanat/c.py", *names):
            archive.writestr(name, "")
    return path


def test_a_wheel_with_every_module_is_compiled(tmp_path: Path) -> None:
    assert check_is_compiled(_wheel(tmp_path, f"qanat/a{SUFFIX}", f"qanat/b{SUFFIX}")) == 2


def test_a_module_that_stayed_interpreted_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="not compiled for cp312: qanat/b"):
        check_is_compiled(_wheel(tmp_path, f"qanat/a{SUFFIX}"))


def test_a_module_of_another_python_does_not_count(tmp_path: Path) -> None:
    other = "qanat/b.cpython-311-x86_64-linux-gnu.so"

    with pytest.raises(AuditError, match="not compiled for cp312: qanat/b"):
        check_is_compiled(_wheel(tmp_path, f"qanat/a{SUFFIX}", other))
