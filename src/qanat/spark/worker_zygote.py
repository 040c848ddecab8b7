"""The zygote of Spark's Python processes: it has imported PySpark, and forks a process for each request.

    python -m qanat.spark.worker_zygote SOCKET

Spark starts several Python processes for a query, one after the other, and each imports PySpark: 0.2 s and more before
the first row. A fork takes a hundredth of that. `spark.worker_launcher`, which Spark takes for Python, asks on SOCKET.

The zygote ends when its standard input does, with the driver. It has one thread, so that a fork is safe. A process is
ended when its launcher is, as Spark expects of a process that it ends itself.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from marshal import loads
from typing import NoReturn

from qanat.spark.worker_launcher import LENGTH, STATUS

_PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "qanat.spark.source",
    "qanat.spark.reads.stream_reader",
    "qanat.spark.reads.batch_reader",
)
"""What the processes import; a module that this version of PySpark lacks is left out."""
_REQUEST_BYTES_MAX = 16 * 1024 * 1024
_HASH_SEED = "PYTHONHASHSEED"


def main(arguments: list[str]) -> None:
    (path,) = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own = _path_entries(os.environ.get("PYTHONPATH", ""))
    installed = [entry for entry in sys.path if entry and entry not in own and entry != os.getcwd()]
    zygote = _Zygote(path, installed)
    for module in _PRELOADED:
        with suppress(ImportError):
            importlib.import_module(module)
    os.register_at_fork(after_in_child=_draw_other_numbers)
    gc.collect()
    gc.freeze()  # Collections of the processes leave the pages shared.
    zygote.run()


def _path_entries(path: str) -> list[str]:
    return [entry for entry in path.split(os.pathsep) if entry]


def _draw_other_numbers() -> None:
    """A fork inherits the state of numpy's generator; that of `random` reseeds itself."""
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()


class _Zygote:
    """Takes requests, and watches over the processes that it forked for them."""

    def __init__(self, path: str, installed: list[str]) -> None:
        self._installed = installed
        self._hash_seed = os.environ.get(_HASH_SEED)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """The processes by their pidfd, and the connections of their launchers."""

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._fork(self._listener.accept()[0])
                elif key.fileobj == 0:
                    if not os.read(0, 4096):
                        return
                elif isinstance(key.fileobj, int):
                    self._reap(key.fileobj)
                else:
                    self._end(key.data)

    def _fork(self, connection: socket.socket) -> None:
        """Fork a process that does what the launcher asks for; refused, the launcher executes Python itself."""
        received = _receive(connection)
        if received is None:
            connection.close()
            return
        streams, (arguments, environment, folder) = received
        if environment.get(_HASH_SEED, self._hash_seed) != self._hash_seed:
            connection.close()  # It would hash differently from what it asks for.
        elif (child := os.fork()) == 0:
            self._leave()
            connection.close()
            _become(arguments, environment, folder, streams, self._installed)
        else:
            watched = os.pidfd_open(child)
            self._children[watched] = child, connection
            self._selector.register(watched, selectors.EVENT_READ)
            self._selector.register(connection, selectors.EVENT_READ, watched)
            with suppress(OSError):
                connection.sendall(b"\1")
        for stream in streams:
            os.close(stream)

    def _leave(self) -> None:
        """Close, in a new process, what belongs to the zygote."""
        self._selector.close()
        self._listener.close()
        for watched, (_, connection) in self._children.items():
            os.close(watched)
            connection.close()

    def _reap(self, watched: int) -> None:
        """Tell the launcher of a process that it has ended."""
        entry = self._children.pop(watched, None)
        if entry is None:
            return
        child, connection = entry
        _, status = os.waitpid(child, 0)
        self._selector.unregister(watched)
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        with suppress(OSError):
            connection.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))
        connection.close()
        os.close(watched)

    def _end(self, watched: int) -> None:
        """End the process of a launcher that has ended."""
        entry = self._children.get(watched)
        if entry is not None:
            self._selector.unregister(entry[1])
            signal.pidfd_send_signal(watched, signal.SIGTERM)


def _receive(connection: socket.socket) -> tuple[list[int], tuple[list[str], dict[str, str], str]] | None:
    """The standard streams and the request; None where the launcher ended half-way."""
    connection.settimeout(5)
    streams: list[int] = []
    try:
        head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
        (length,) = LENGTH.unpack(head)
        body = bytearray()
        while len(streams) == 3 and length <= _REQUEST_BYTES_MAX and len(body) < length:
            part = connection.recv(length - len(body))
            if not part:
                break
            body += part
        if len(body) == length:
            connection.settimeout(None)
            return streams, loads(bytes(body))
    except (OSError, ValueError, EOFError, TypeError, struct.error):
        pass
    for stream in streams:
        os.close(stream)
    return None


def _become(
    arguments: list[str], environment: dict[str, str], folder: str, streams: list[int], installed: list[str]
) -> NoReturn:
    """Run a module as `python -m` does, and end as an interpreter does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = [folder, *_path_entries(environment.get("PYTHONPATH", "")), *installed]
    sys.argv[:] = ["-m", *arguments[1:]]
    sys.modules.pop(arguments[0], None)  # It runs anew, and `runpy` would warn of the one that is there.
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
