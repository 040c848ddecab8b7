"""Build a release into a folder: both sdists, and from them the wheels of `qanat` and `qanat-client` for each CPython.

    python -m tools.build_dist FOLDER [--python 3.12 ...] [--here]

Each wheel is compiled by zig against an old glibc and checked by auditwheel; a core that would stay interpreted fails
the build. With `--here`, which needs no network, this machine's compiler builds for this interpreter and this machine.

Building from the sdists proves that they are complete. The wheels of this interpreter, and the interpreted form,
which users get who build the sdists without a compiler, are then tried in empty environments: with the pinned runtime
dependencies alone, which proves that Qanat needs none of the developer's tools, and the client nothing of the rest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from tools.release.audit import AuditError, check_is_compiled, check_wheel
from tools.release.compiled import compile_for, generate
from tools.release.targets import TARGETS, Target
from tools.toolchains.registries import MissingToolError
from tools.toolchains.unpacking import unpack_into

ROOT = Path(__file__).resolve().parents[1]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"

# Imports the per-record core of the wheel: the interpreted form must work without Cython.
TRIAL = """
from qanat.app.doctor.machine_checks import native_modules
compiled, interpreted = native_modules()
print(f"  compiled {compiled}, interpreted {interpreted}")
"""

# Imports everything that the client's wheel holds.
CLIENT_TRIAL = """
import importlib, pkgutil, qanat, qanat.client
names = [module.name for module in pkgutil.walk_packages(qanat.__path__, "qanat.")]
for name in names:
    importlib.import_module(name)
public = [getattr(qanat.client, name) for name in qanat.client.__all__]
print(f"  {len(names)} modules, {len(public)} public names")
"""


def main() -> int:
    """Build, try, report; a step that fails ends it with that step's message."""
    options = _options()
    folder = (ROOT / options.folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="qanat-release-") as work:
        tree = _sdist(ROOT, folder, Path(work))
        client = _sdist(tree / "qanat-client", folder, Path(work))
        try:
            if options.here:
                _build(tree, client, folder, QANAT_RELEASE="1")
            else:
                targets = [one for one in TARGETS if one.version in options.python]
                _build_all(tree, client, targets, Path(work), folder)
            for wheel in sorted(folder.glob("*.whl")):
                compiled = check_is_compiled(wheel) if options.here else check_wheel(wheel)
                print(f"{wheel.name}: {compiled} modules, all compiled")
        except (AuditError, MissingToolError, RuntimeError) as fault:
            sys.exit(f"build_dist: {fault}")
        pure = Path(work) / "pure"
        _build(tree, client, pure, QANAT_PURE="1")
        for wheel in [*pure.glob("qanat-*.whl"), *folder.glob(f"qanat-*-cp{HERE.replace('.', '')}-*.whl")]:
            clients = wheel.with_name(wheel.name.replace("qanat-", "qanat_client-", 1))
            print(f"Trying {clients.name}, then {wheel.name} in an empty environment ...", flush=True)
            _try(clients, wheel)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>10,} bytes  {path.name}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build a release: the sdist and compiled wheels.")
    parser.add_argument("folder")
    versions = [target.version for target in TARGETS]
    parser.add_argument("--python", nargs="+", choices=versions, default=versions, help="build for these only")
    parser.add_argument("--here", action="store_true", help="build with this machine's compiler for this machine")
    return parser.parse_args()


def _sdist(project: Path, folder: Path, work: Path) -> Path:
    """Build a project's sdist into `folder`, and unpack it into `work`: the folder of its files."""
    before = {*folder.glob("*.tar.gz")}
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], project)
    (sdist,) = {*folder.glob("*.tar.gz")} - before
    with tarfile.open(sdist) as archive:
        unpack_into(work, archive)
    return work / sdist.name.removesuffix(".tar.gz")


def _build_all(tree: Path, client: Path, targets: list[Target], work: Path, folder: Path) -> None:
    print("Translating the per-record core to C ...", flush=True)
    sources = generate(tree / "src", work / "c")
    for target in targets:
        print(f"Compiling {len(sources)} modules for CPython {target.version} ...", flush=True)
        modules = compile_for(target, sources, work / "compiled")
        _build(tree, client, folder, QANAT_RELEASE="1", QANAT_PREBUILT=str(modules))


def _build(tree: Path, client: Path, folder: Path, **environment: str) -> None:
    """Both wheels, without build isolation: the tools are those of this environment, which are pinned."""
    for project in (tree, client):
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], project, **environment)


def _try(client: Path, wheel: Path) -> None:
    """The client alone, then all of it."""
    with tempfile.TemporaryDirectory(prefix="qanat-trial-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
        _run([*install, str(client)])
        _run([str(python), "-c", CLIENT_TRIAL], cwd=folder)
        _run([*install, str(wheel)])
        _run([str(python.with_name("qanat")), "--version"], cwd=folder)
        _run([str(python), "-c", TRIAL], cwd=folder)


def _run(command: list[str], cwd: str | Path = ROOT, **environment: str) -> None:
    # What is tried is what was installed, whatever path the builder has.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env={**inherited, **environment}, check=False)
    if done.returncode:
        sys.exit(f"build_dist: `{' '.join(command)}` failed with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
