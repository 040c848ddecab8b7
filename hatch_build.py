"""The build hook: compiles the per-record core with Cython where there is a C compiler.

A module with a `.pxd` file of the same name is ordinary Python, written for Cython's pure
mode: compiled it is some ten times as fast, interpreted it does the same work. So a
missing compiler is no error, only a slower wheel:

- wheel       compiled modules are added next to their source, and the wheel is tagged
              for this interpreter and platform; without them it is `py3-none-any`;
- editable    compiled in place, next to the source (`*.so` is ignored by git);
- sdist       that of `qanat-client` gets the sources, which are beside its folder.

`python hatch_build.py` compiles in place; `QANAT_PURE=1` compiles nothing. A release is built with `QANAT_RELEASE=1`,
which fails where another build would fall back to the interpreted form, and with `QANAT_PREBUILT`, a folder of modules
that were compiled for one CPython, with the wheel's tag in the file `TAG` (`tools/release`).

Free-threaded CPython is refused: the per-record core relies on the interpreter's lock.

Two wheels share the package's folder: `qanat-client` holds `CLIENT_PARTS`, `qanat` the rest.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCE = "src"

NATIVE = sorted(str(path.with_suffix(".py").relative_to(ROOT)) for path in (ROOT / SOURCE).rglob("*.pxd"))

CLIENT = "qanat-client"
CLIENT_PARTS = ("__init__.py", "py.typed", "client", "connection", "model", "telemetry", "wire")
"""What the wheel `qanat-client` holds of `src/qanat`; pyproject.toml leaves the same out of the wheel `qanat`."""
_NOT_SHIPPED = (".so", ".pyd", ".pyc")
"""What earlier builds left beside the sources."""


class NativeBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: adds compiled modules to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "sdist":
            self._folder = tempfile.mkdtemp(prefix="qanat-sdist-")
            complete_client_sdist(Path(self.root), Path(self._folder), build_data["force_include"])
            return
        refuse_free_threading()
        if version == "editable":
            compile_in_place()
            return
        is_client = self.metadata.name == CLIENT
        if is_client:
            build_data["force_include"].update(client_files())
        self._folder = tempfile.mkdtemp(prefix="qanat-native-")
        modules = [one for one in NATIVE if _is_of_client(one) == is_client]
        if prebuilt := os.environ.get("QANAT_PREBUILT"):
            folder, compiled = Path(prebuilt), prebuilt_modules(Path(prebuilt), modules)
            build_data["tag"] = (folder / "TAG").read_text()
        else:
            folder, compiled = Path(self._folder), compile_into(Path(self._folder), modules)
            build_data["infer_tag"] = bool(compiled)
        if compiled:
            build_data["pure_python"] = False
            build_data["force_include"].update({str(path): str(path.relative_to(folder)) for path in compiled})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._folder, ignore_errors=True)


def complete_client_sdist(project: Path, folder: Path, force_include: dict[str, str]) -> None:
    """Bring what the project has beside its folder into its sdist, where paths begin at the sdist's own root."""
    declared = (project / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(declared.replace('"../', '"'))
    del force_include[str(project / "pyproject.toml")]
    force_include[str(folder / "pyproject.toml")] = "pyproject.toml"
    force_include[str(ROOT / "hatch_build.py")] = "hatch_build.py"
    force_include.update({path: f"{SOURCE}/{inside}" for path, inside in client_files().items()})


def client_files() -> dict[str, str]:
    """The files of the wheel `qanat-client`, and where each goes; without the compiled modules."""
    found = {}
    for part in CLIENT_PARTS:
        whole = ROOT / SOURCE / "qanat" / part
        for path in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
            if path.is_file() and path.suffix not in _NOT_SHIPPED:
                found[str(path)] = str(path.relative_to(ROOT / SOURCE))
    return found


def _is_of_client(module: str) -> bool:
    return Path(module).relative_to(SOURCE).parts[1] in CLIENT_PARTS


def compile_in_place() -> None:
    """Put compiled modules next to their sources; where compilation fails, leave none."""
    with tempfile.TemporaryDirectory(prefix="qanat-native-") as folder:
        compiled = compile_into(Path(folder), NATIVE)
        for module in NATIVE:
            source = ROOT / module
            for stale in source.parent.glob(f"{source.stem}.*.so"):
                stale.unlink()
        for path in compiled:
            shutil.copy2(path, ROOT / SOURCE / path.relative_to(folder))


def compile_into(folder: Path, modules: list[str]) -> list[Path]:
    """Compile native modules into `folder`; returns all of them, or an empty list with a notice why."""
    if os.environ.get("QANAT_PURE", "") not in ("", "0"):
        return _stay_interpreted("QANAT_PURE is set")
    if not modules:
        return []
    try:
        return _compile(folder, modules)
    except ImportError as missing:
        return _stay_interpreted(f"{missing.name} is not installed")
    # Compilers fail in many ways, and none of them may fail the installation.
    except (Exception, SystemExit) as failure:  # noqa: BLE001
        return _stay_interpreted(f"{type(failure).__name__}: {failure}")


def _compile(folder: Path, modules: list[str]) -> list[Path]:
    # setuptools comes first: it provides distutils where Python no longer does.
    from setuptools import Distribution, Extension  # isort: skip
    from Cython.Build import cythonize

    sources = ROOT / SOURCE
    extensions = []
    for module in modules:
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


def prebuilt_modules(folder: Path, modules: list[str]) -> list[Path]:
    """The compiled form of each module in `folder`; one that is missing fails the build."""
    found = []
    for module in modules:
        name = Path(module).with_suffix("").relative_to(SOURCE)
        match = [*folder.glob(f"{name}.*.so")]
        if len(match) != 1:
            raise RuntimeError(f"qanat: {folder} has {len(match)} compiled forms of {name}, and a release needs one")
        found += match
    return found


def refuse_free_threading() -> None:
    """Fail the build for a CPython without the interpreter's lock, with a sentence that says what to do."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError(
            f"qanat: CPython {sys.version_info.major}.{sys.version_info.minor} is a free-threaded build, which Qanat "
            "does not support: install it with the ordinary one"
        )


def _stay_interpreted(reason: str) -> list[Path]:
    if os.environ.get("QANAT_RELEASE", "") not in ("", "0"):
        raise RuntimeError(f"qanat: a release is compiled, and this one would not be ({reason.splitlines()[0]})")
    print(f"qanat: the per-record core stays interpreted ({reason.splitlines()[0]})", file=sys.stderr)
    return []


if __name__ == "__main__":
    refuse_free_threading()
    compile_in_place()
