"""The wire modules in both forms, compiled and interpreted: one suite holds both to the same behaviour."""

from __future__ import annotations

import importlib
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "qanat" / "wire"
NATIVE = ("crc_change", "growth", "key_hash", "record_reader", "column_reader", "record_writer", "batch_builder")
ABOVE = ("records", "columns", "filtering", "control")

# The capture tool's broker and the hook that compiles are part of the checkout, not of the package.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@dataclass(frozen=True, slots=True)
class Wire:
    """One form of the core, and the modules that stand on it."""

    form: str
    crc_change: ModuleType
    growth: ModuleType
    key_hash: ModuleType
    record_reader: ModuleType
    column_reader: ModuleType
    record_writer: ModuleType
    batch_builder: ModuleType
    records: ModuleType
    columns: ModuleType
    filtering: ModuleType
    control: ModuleType


class FormFinder(MetaPathFinder):
    """Finds the native modules in one form, whatever binaries are there."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.files.get(fullname.removeprefix("qanat.wire."))
        return spec_from_file_location(fullname, file) if file else None


def load(form: str, files: dict[str, Path]) -> Wire:
    """Import the core from `files` and everything above it anew, and leave other tests' modules alone."""
    names = [f"qanat.wire.{name}" for name in (*NATIVE, *ABOVE)]
    package = importlib.import_module("qanat.wire")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    attributes = dict(vars(package))
    finder = FormFinder(files)
    sys.meta_path.insert(0, finder)
    try:
        modules = [importlib.import_module(name) for name in names]
    finally:
        sys.meta_path.remove(finder)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        vars(package).update(attributes)
    return Wire(form, *modules)


def has_compiler() -> bool:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(compiler) is not None and headers.exists() and find_spec("Cython") is not None


def compiled_beside_sources() -> dict[str, Path]:
    """Compiled modules that are no older than what they were compiled from."""
    found = {}
    for name in NATIVE:
        spec = PathFinder.find_spec(f"qanat.wire.{name}", [str(SOURCE)])
        file = Path(spec.origin) if spec and spec.origin else SOURCE / f"{name}.py"
        sources = [path for other in NATIVE for path in SOURCE.glob(f"{other}.p*")]
        if file.suffix != ".py" and file.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
            found[name] = file
    return found


@pytest.fixture(scope="session")
def interpreted() -> Wire:
    return load("interpreted", {name: SOURCE / f"{name}.py" for name in NATIVE})


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Wire:
    files = compiled_beside_sources()
    if len(files) < len(NATIVE):
        if not has_compiler():
            pytest.skip("no C compiler: the core runs interpreted here")
        import hatch_build

        outputs = hatch_build.compile_into(tmp_path_factory.mktemp("native"), hatch_build.NATIVE)
        files = {path.name.split(".")[0]: path for path in outputs if path.name.split(".")[0] in NATIVE}
        assert set(files) == set(NATIVE), "there is a compiler, yet the core was not compiled"
    return load("compiled", files)


@pytest.fixture(scope="session", params=["compiled", "interpreted"])
def wire(request: pytest.FixtureRequest) -> Wire:
    loaded: Wire = request.getfixturevalue(request.param)
    assert loaded.record_reader.is_compiled() == (request.param == "compiled")
    return loaded
