"""Build the root file system of the image: Python, Qanat, the libraries that both load, and nothing else.

    python3 make_root.py FOLDER [PACKAGES PROGRAMS]

Run in an image, or on any machine with glibc, whose Python is to be in the root. PACKAGES becomes `/opt/qanat`, and
PROGRAMS `/opt/image`. `chroot FOLDER /usr/bin/python3` works then, which the tests try without a container engine.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PACKAGES, PROGRAMS = Path("/opt/qanat"), Path("/opt/image")
USER, GROUP = 10001, 10001
_LEFT_OUT = shutil.ignore_patterns(
    *("__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "distutils", "venv"),
    *("pydoc_data", "config-*", "dist-packages", "site-packages", "_tkinter*", "_test*", "turtle.py", "*.a"),
)
_LEFT_OUT_OF_PACKAGES = shutil.ignore_patterns("__pycache__", "bin", "*.pyx", "*.c", "*.h", "tests")
_LEFT_OUT_OF_PROGRAMS = shutil.ignore_patterns("__pycache__", "Containerfile", "make_root.py")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_COMMAND = "#!/usr/bin/python3\nfrom qanat.app.main import main\n\nmain()\n"
_PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nqanat:x:{USER}:{GROUP}:Qanat:/data:/sbin/nologin\n"


def main() -> None:
    """Make the root in the folder of the command line."""
    root = Path(sys.argv[1])
    packages, programs = map(Path, sys.argv[2:4] or (PACKAGES, PROGRAMS))
    _merge_usr(root)
    python = Path(os.path.realpath(sys.executable))
    folders = dict.fromkeys(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    for folder in folders:
        shutil.copytree(folder, _at(root, folder), ignore=_LEFT_OUT, dirs_exist_ok=True)
    shutil.copytree(packages, _at(root, PACKAGES), ignore=_LEFT_OUT_OF_PACKAGES)
    shutil.copytree(programs, _at(root, PROGRAMS), ignore=_LEFT_OUT_OF_PROGRAMS)
    _copy(root, python)
    for library in sorted(set(_libraries(root, python))):
        _copy(root, library)
    _write_files(root, python)
    subprocess.run(["ldconfig", "-r", str(root)], check=True)
    for folder in (*folders, PACKAGES):
        _compile(root, folder)


def _compile(root: Path, folder: Path) -> None:
    """Compiled modules; their sources only where they are read: settings say their meaning in Qanat's own."""
    place = _at(root, folder)
    for path in [one for one in place.rglob("*.py") if one.relative_to(place).parts[0] != "qanat"]:
        if compileall.compile_file(path, quiet=2, stripdir=str(root), legacy=True):
            path.unlink()
    if (place / "qanat").is_dir():
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(place / "qanat", quiet=2, stripdir=str(root), invalidation_mode=mode)


def _at(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _merge_usr(root: Path) -> None:
    """`/lib` and its like are links into `/usr`, as where the libraries come from."""
    root.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "lib", "lib64"):
        if Path(f"/{name}").is_symlink():
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")


def _copy(root: Path, path: Path) -> None:
    """A file, and the link that names it."""
    real = path.resolve()
    _at(root, real).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(real, _at(root, real))
    link = _at(root, path)
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(_at(root, real).resolve(), link.parent.resolve()))


def _libraries(root: Path, python: Path) -> Iterator[Path]:
    """Every shared library that Python or a module loads; those that packages bring are in the root already."""
    modules = [one for one in root.rglob("*.so*") if one.is_file()]
    for program in (python, *modules):
        text = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
        for line in text.splitlines():
            found = _LIBRARY.search(line)
            if found is not None and not found[1].startswith((str(root), str(PACKAGES))):
                yield Path(found[1])


def _write_files(root: Path, python: Path) -> None:
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text(_PASSWD)
    (etc / "group").write_text(f"root:x:0:\nqanat:x:{GROUP}:\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    configuration = Path("/etc/ld.so.conf.d")
    (etc / "ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    if configuration.is_dir():
        shutil.copytree(configuration, etc / "ld.so.conf.d", dirs_exist_ok=True)
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        _copy(root, authorities)
    (root / "usr" / "bin").mkdir(parents=True, exist_ok=True)
    link = root / "usr" / "bin" / "python3"
    if not link.exists():
        link.symlink_to(python)
    command = root / "usr" / "bin" / "qanat"
    command.write_text(_COMMAND)
    command.chmod(0o755)
    for name in ("tmp", "dev", "proc", "sys", "run"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main()
