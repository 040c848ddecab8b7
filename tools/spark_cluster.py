"""A standalone Spark cluster on loopback: master and worker processes of the installed PySpark."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from qanat.spark.session import require_java

_TIMEOUT_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextlib.contextmanager
def standalone_cluster(folder: Path, cores: int = 2, memory: str = "2g") -> Iterator[str]:
    """The address of a master with one worker; both write their logs into the folder."""
    require_java()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    address = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        log = folder / "master.log"
        master = stack.enter_context(_running(log, _MASTER, "--port", str(port)))
        _wait_for(master, log, "Successfully started service 'sparkMaster'")
        size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work")]
        worker = stack.enter_context(_running(folder / "worker.log", _WORKER, *size, address))
        _wait_for(worker, folder / "worker.log", "Successfully registered with master")
        yield address


@contextlib.contextmanager
def _running(log: Path, main_class: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), main_class]
    command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], log: Path, sign: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while sign not in log.read_text(errors="replace"):
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError(f"Spark did not log {sign!r}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
