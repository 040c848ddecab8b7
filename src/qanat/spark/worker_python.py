"""The Python of Spark's workers on this host: this one, with its installed PySpark, started before it is needed.

Spark puts an archive of PySpark first on the path of its Python processes. Archives hold no compiled modules, so each
process compiles PySpark again: it takes 1.7 s of processor time to start, and 0.4 s with the installed modules, as
measured. Spark starts several for every query, one after the other, and waits ten seconds for each. So the program that
Spark starts here is a launcher (`worker_launcher`), which has the process forked off one that has imported all of it
(`worker_zygote`); that one is started with the session, while Java starts, or when a session of a user registers the
format (`forked_when_registered`).
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from qanat.spark import worker_launcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = Path(sys.executable)
_PROGRAM = """\
#!/bin/sh
exec {python} -IS {launcher} {python} {zygote} "$@"
"""


def worker_python(master: str, spark_home: str | None) -> str:
    """The program of workers: a launcher, or Python itself where Spark is not local, or not the installed PySpark."""
    if not master.startswith("local") or not _is_installed(spark_home):
        return sys.executable
    return _launcher() or sys.executable


@contextmanager
def forked_when_registered(spark: SparkSession) -> Iterator[None]:
    """Have the processes of a data source that is registered in this context forked, where Spark is local.

    A data source keeps the Python that its session had when it was registered. The session's own stays what it was, for
    functions of the user; so does a Python that the user has chosen. Servers of Spark Connect choose their own.
    """
    context = getattr(spark, "sparkContext", None)
    program = None
    if context is not None and _is_this(context.pythonExec):
        program = worker_python(context.master, os.environ.get("SPARK_HOME"))
    if context is None or program in (None, sys.executable):
        # Python itself: executors of a cluster may have another one, at another place.
        yield
        return
    before, context.pythonExec = context.pythonExec, program
    try:
        yield
    finally:
        context.pythonExec = before


def _is_this(program: str) -> bool:
    """Whether Spark would start this Python, or has not been told which one."""
    if "PYSPARK_PYTHON" not in os.environ and program == "python3":
        return True
    found = shutil.which(program)
    # Environments share the program behind their links: the folder tells them apart.
    return found is not None and Path(found).parent.samefile(_OWN.parent) and Path(found).samefile(_OWN)


def _is_installed(spark_home: str | None) -> bool:
    """Whether Spark is that of the installed PySpark: `spark-submit` sets SPARK_HOME to it."""
    if spark_home is None:
        return True
    home = Path(spark_home).resolve()
    return home.name == "pyspark" and any(Path(entry).resolve() == home.parent for entry in sys.path if entry)


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
