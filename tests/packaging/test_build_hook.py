"""The build hook: a compiled wheel where that works, a pure one with a notice where it does not.

Building for real takes long; `make dist` does it. Here a toy module stands for the core.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tests.packaging.building import ROOT, build_wheel

from qanat.app.doctor.machine_checks import native_modules

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


def compiled_in(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]


@pytest.mark.long
@pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler on this machine")
def test_with_a_compiler_the_wheel_is_compiled_and_tagged(toy: Path) -> None:
    wheel, output = build_wheel(toy, toy / "dist")

    assert len(compiled_in(wheel)) == 1
    assert not wheel.name.endswith("py3-none-any.whl")
    assert NOTICE not in output


def test_without_a_compiler_the_wheel_is_pure_and_says_so(toy: Path) -> None:
    wheel, output = build_wheel(toy, toy / "dist", CC="no-such-compiler", LDSHARED="no-such-compiler")

    assert compiled_in(wheel) == []
    assert wheel.name.endswith("py3-none-any.whl")
    assert NOTICE in output


@pytest.mark.long
def test_a_source_that_does_not_compile_makes_a_pure_wheel(toy: Path) -> None:
    (toy / "src" / "qanat" / "core.pxd").write_text("this is no declaration\n")
    wheel, output = build_wheel(toy, toy / "dist")

    assert wheel.name.endswith("py3-none-any.whl")
    assert NOTICE in output


def test_a_pure_wheel_can_be_asked_for(toy: Path) -> None:
    wheel, output = build_wheel(toy, toy / "dist", QANAT_PURE="1")

    assert wheel.name.endswith("py3-none-any.whl")
    assert "QANAT_PURE is set" in output


@pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler on this machine")
@pytest.mark.skipif(bool(os.environ.get("QANAT_PURE")), reason="QANAT_PURE asks for the interpreted core")
def test_with_a_compiler_nothing_of_the_core_stays_interpreted() -> None:
    _, interpreted = native_modules()

    assert interpreted == [], "make setup compiles; its notice says why it could not"


@pytest.mark.long
def test_a_release_that_would_stay_interpreted_fails(toy: Path) -> None:
    said = refused_build(toy, QANAT_RELEASE="1", CC="no-such-compiler", LDSHARED="no-such-compiler")

    assert "a release is compiled, and this one would not be" in said


def test_modules_compiled_elsewhere_make_a_wheel_for_their_python(toy: Path) -> None:
    (toy / "built" / "qanat").mkdir(parents=True)
    (toy / "built" / "TAG").write_text("cp399-cp399-manylinux_2_17_x86_64")
    (toy / "built" / "qanat" / "core.cpython-399-x86_64-linux-gnu.so").write_bytes(b"\x7fELF")

    wheel, _ = build_wheel(toy, toy / "dist", QANAT_PREBUILT=str(toy / "built"))

    assert wheel.name == "qanat-0.1.0-cp399-cp399-manylinux_2_17_x86_64.whl"
    assert compiled_in(wheel) == ["qanat/core.cpython-399-x86_64-linux-gnu.so"]


def test_a_module_that_was_not_compiled_elsewhere_fails_the_release(toy: Path) -> None:
    (toy / "built").mkdir()

    said = refused_build(toy, QANAT_PREBUILT=str(toy / "built"))

    assert "has 0 compiled forms of qanat/core, and a release needs one" in said


def test_a_free_threaded_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = importlib.util.spec_from_file_location("hook", ROOT / "hatch_build.py")
    assert hook is not None
    assert hook.loader is not None
    module = importlib.util.module_from_spec(hook)
    hook.loader.exec_module(module)
    module.refuse_free_threading()
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))

    with pytest.raises(RuntimeError, match="is a free-threaded build, which Qanat does not support"):
        module.refuse_free_threading()


def refused_build(project: Path, **environment: str) -> str:
    with pytest.raises(AssertionError) as refused:
        build_wheel(project, project / "dist", **environment)
    return str(refused.value)
