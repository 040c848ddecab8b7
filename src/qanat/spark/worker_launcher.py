"""Starts a Python process for Spark: forked off the zygote, which has imported PySpark, or a new interpreter.

    python -IS worker_launcher.py PYTHON SOCKET ARGUMENT...

Spark takes this program for Python itself: arguments, environment, standard streams, exit code and death are those of
the process. `spark.worker_zygote` is the other end of SOCKET; where it does not answer, PYTHON is executed.

Rule: imports of the standard library only, and few: every process of Spark waits for them.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from marshal import dumps

LENGTH = struct.Struct("<I")
STATUS = struct.Struct("<i")


def main(arguments: list[str]) -> None:
    python, zygote, *given = arguments
    environment = dict(os.environ)
    environment["PYTHONPATH"] = without_archives(environment.get("PYTHONPATH", ""))
    if any("transform_with_state_driver_worker" in argument for argument in given):
        # The process in which Spark inspects a stateful step prints its own stages.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if given[:1] == ["-m"] and len(given) > 1:
        status = run_forked(zygote, given[1:], environment)
        if status is not None:
            os._exit(status if status >= 0 else 128 - status)
    os.execve(python, [python, *given], environment)


def without_archives(path: str) -> str:
    """PYTHONPATH without Spark's archives of PySpark: the installed modules are the same, and compiled.

    >>> without_archives("/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip:/mine")
    '/mine'
    """
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if not is_archive(entry))


def is_archive(entry: str) -> bool:
    name = entry.rpartition("/python/lib/")[2] if "/python/lib/" in entry else ""
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))


def run_forked(zygote: str, arguments: list[str], environment: dict[str, str]) -> int | None:
    """Run a module in a process of the zygote; its exit code, or None where the zygote does not take it."""
    request = dumps((arguments, environment, os.getcwd()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(zygote)
            socket.send_fds(connection, [LENGTH.pack(len(request))], [0, 1, 2])
            connection.sendall(request)
            accepted = connection.recv(1)
        except OSError:
            return None
        if not accepted:
            return None
        answer = connection.recv(STATUS.size)
    return int(STATUS.unpack(answer)[0]) if len(answer) == STATUS.size else 1


if __name__ == "__main__":
    main(sys.argv[1:])
