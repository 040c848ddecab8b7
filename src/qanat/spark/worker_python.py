"""The Python of Spark's workers on this host: this one, with its installed PySpark.

Spark puts an archive of PySpark first on the path of its Python processes. Archives hold no compiled modules, so each
process compiles PySpark again: it takes 1.7 s of processor time to start, and 0.4 s with the installed modules, as
measured. Spark starts several for every query, one after the other, and waits ten seconds for each.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

_PROGRAM = """\
#!/bin/sh
# Python without the archives that Spark puts on its path: the installed modules are the same, and compiled.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
# The process in which Spark inspects a stateful step prints its own stages.
case $* in *transform_with_state_driver_worker*) exec >/dev/null ;; esac
PYTHONPATH=$kept exec {python} "$@"
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
    program = Path(folder) / "python"
    program.write_text(_PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    return str(program) if os.access(program, os.X_OK) else None
