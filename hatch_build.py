"""The build hook: compiles the per-record core with Cython where there is a C compiler.

A module with a `.pxd` file of the same name is ordinary Python, written for Cython's pure
mode: compiled it is some ten times as fast, interpreted it does the same work. So a
missing compiler is no error, only a slower wheel:

- wheel       compiled modules are added next to their source, and the wheel is tagged
              for this interpreter and platform; without them it is `py3-none-any`;
- editable    compiled in place, next to the source (`*.so` is ignored by git).

`python hatch_build.py` compiles in place; `QANAT_PURE=1` compiles nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCE = "src"

NATIVE = sorted(str(path.with_suffix(".py").relative_to(ROOT)) for path in (ROOT / SOURCE).rglob("*.pxd"))


class NativeBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: adds compiled modules to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            compile_in_place()
            return
        self._folder = tempfile.mkdtemp(prefix="qanat-native-")
        compiled = compile_into(Path(self._folder))
        if compiled:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(path): str(path.relative_to(self._folder)) for path in compiled})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._folder, ignore_errors=True)


def compile_in_place() -> None:
    """Put compiled modules next to their sources; where compilation fails, leave none."""
    with tempfile.TemporaryDirectory(prefix="qanat-native-") as folder:
        compiled = compile_into(Path(folder))
        for module in NATIVE:
            source = ROOT / module
            for stale in source.parent.glob(f"{source.stem}.*.so"):
                stale.unlink()
        for path in compiled:
            shutil.copy2(path, ROOT / SOURCE / path.relative_to(folder))


def compile_into(folder: Path) -> list[Path]:
    """Compile every native module into `folder`; returns all of them, or an empty list with a notice why."""
    if os.environ.get("QANAT_PURE", "") not in ("", "0"):
        return _stay_interpreted("QANAT_PURE is set")
    if not NATIVE:
        return []
    try:
        return _compile(folder)
    except ImportError as missing:
        return _stay_interpreted(f"{missing.name} is not installed")
    # Compilers fail in many ways, and none of them may fail the installation.
    except (Exception, SystemExit) as failure:  # noqa: BLE001
        return _stay_interpreted(f"{type(failure).__name__}: {failure}")


def _compile(folder: Path) -> list[Path]:
    # setuptools comes first: it provides distutils where Python no longer does.
    from setuptools import Distribution, Extension  # isort: skip
    from Cython.Build import cythonize

    sources = ROOT / SOURCE
    extensions = []
    for module in NATIVE:
        name = str(Path(module).with_suffix("").relative_to(SOURCE)).replace(os.sep, ".")
        extensions.append(Extension(name, [str(ROOT / module)], extra_compile_args=["-O3", "-g0"]))
    with tempfile.TemporaryDirectory(prefix="qanat-c-") as scratch:
        generated = cythonize(extensions, build_dir=scratch, language_level=3, quiet=True)
        command = Distribution({"ext_modules": generated, "package_dir": {"": str(sources)}}).get_command_obj(
            "build_ext"
        )
        command.build_lib, command.build_temp, command.parallel = str(folder), scratch, True
        command.ensure_finalized()
        command.run()
        return sorted(Path(path) for path in command.get_outputs())


def _stay_interpreted(reason: str) -> list[Path]:
    print(f"qanat: the per-record core stays interpreted ({reason.splitlines()[0]})", file=sys.stderr)
    return []


if __name__ == "__main__":
    compile_in_place()
