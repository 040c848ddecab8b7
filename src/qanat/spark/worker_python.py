"""The Python of Spark's workers on this host: this one, with its installed PySpark, started before it is needed.

Spark puts an archive of PySpark first on the path of its Python processes. Archives hold no compiled modules, so each
process compiles PySpark again: it takes 1.7 s of processor time to start, and 0.4 s with the installed modules, as
measured. Spark starts several for every query, one after the other, and waits ten seconds for each. So the program that
Spark starts here is a launcher (`worker_launcher`), which has the process forked off one that has imported all of it
(`worker_zygote`); that one is started with the session, while Java starts.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from qanat.spark import worker_launcher

_PROGRAM = """\
#!/bin/sh
exec {python} -IS {launcher} {python} {zygote} "$@"
"""


def worker_python(master: str, spark_home: str | None) -> str:
    """The program of workers: a launcher, or Python itself where SPARK_HOME is set or Spark is not local."""
    if not master.startswith("local") or spark_home is not None:
        return sys.executable
    return _launcher() or sys.executable


@cache
def _launcher() -> str | None:
    """The launcher, deleted with this process; None where temporary files cannot be executed."""
    folder = tempfile.mkdtemp(prefix="qanat-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program, zygote = Path(folder) / "python", Path(folder) / "zygote"
    launcher = str(Path(worker_launcher.__file__))
    quoted = {"python": sys.executable, "launcher": launcher, "zygote": str(zygote)}
    program.write_text(_PROGRAM.format(**{name: shlex.quote(value) for name, value in quoted.items()}))
    program.chmod(0o755)
    if not os.access(program, os.X_OK):
        return None
    if hasattr(os, "pidfd_open"):
        _start_zygote(zygote)
    return str(program)


def _start_zygote(path: Path) -> None:
    """It lives as long as its standard input is open: until this process ends, however it does."""
    environment = {**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
    command = [sys.executable, "-m", "qanat.spark.worker_zygote", str(path)]
    zygote = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    atexit.register(zygote.communicate)
