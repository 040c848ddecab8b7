"""The build hook: a compiled wheel where that works, a pure one with a notice where it does not.

Building for real takes long; `make dist` does it. Here a toy module stands for the core.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from qanat.app.doctor.machine_checks import native_modules

ROOT = Path(__file__).resolve().parents[2]
NOTICE = "the per-record core stays interpreted"

HAS_COMPILER = (
    shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None
    and (Path(sysconfig.get_path("include")) / "Python.h").exists()
    and importlib.util.find_spec("Cython") is not None
)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A checkout in small: this project's build files around one native module."""
    package = tmp_path / "src" / "qanat"
    package.mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (package / "core.py").write_text("def twice(number):\n    return 2 * number\n")
    (package / "core.pxd").write_text("cpdef long twice(long number)\n")
    return tmp_path


def build_wheel(root: Path, **environment: str) -> tuple[Path, str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "dist")]
    clean = {name: value for name, value in os.environ.items() if name != "QANAT_PURE"}
    done = subprocess.run(command, cwd=root, env={**clean, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    return wheel, done.stdout + done.stderr


def compiled_in(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]


@pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler on this machine")
def test_with_a_compiler_the_wheel_is_compiled_and_tagged(toy: Path) -> None:
    wheel, output = build_wheel(toy)

    assert len(compiled_in(wheel)) == 1
    assert not wheel.name.endswith("py3-none-any.whl")
    assert NOTICE not in output


def test_without_a_compiler_the_wheel_is_pure_and_says_so(toy: Path) -> None:
    wheel, output = build_wheel(toy, CC="no-such-compiler", LDSHARED="no-such-compiler")

    assert compiled_in(wheel) == []
    assert wheel.name.endswith("py3-none-any.whl")
    assert NOTICE in output


def test_a_source_that_does_not_compile_makes_a_pure_wheel(toy: Path) -> None:
    (toy / "src" / "qanat" / "core.pxd").write_text("this is no declaration\n")
    wheel, output = build_wheel(toy)

    assert wheel.name.endswith("py3-none-any.whl")
    assert NOTICE in output


def test_a_pure_wheel_can_be_asked_for(toy: Path) -> None:
    wheel, output = build_wheel(toy, QANAT_PURE="1")

    assert wheel.name.endswith("py3-none-any.whl")
    assert "QANAT_PURE is set" in output


@pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler on this machine")
@pytest.mark.skipif(bool(os.environ.get("QANAT_PURE")), reason="QANAT_PURE asks for the interpreted core")
def test_with_a_compiler_nothing_of_the_core_stays_interpreted() -> None:
    _, interpreted = native_modules()

    assert interpreted == [], "make setup compiles; its notice says why it could not"
