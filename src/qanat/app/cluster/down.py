"""`qanat cluster down`: stop a local cluster."""

from __future__ import annotations

import os
import signal
import time
from typing import Annotated

from cyclopts import Parameter

from qanat.app.cluster.pid_file import ClusterError, is_locked, read_pid_file
from qanat.app.terminal.progress import status_line

_DOWN_S = 60.0


def down(*, data_dir: Annotated[str, Parameter(metavar="PATH")] = "data") -> int:
    """Stop a local cluster that `cluster up` runs on this machine, detached or not.

        qanat cluster down

    Parameters
    ----------
    data_dir:
        The data directory of `cluster up`.
    """
    running = read_pid_file(data_dir)
    if running is None:
        raise ClusterError(f"no cluster runs on {data_dir}")
    try:
        os.kill(running.supervisor, signal.SIGTERM)
    except OSError as fault:
        raise ClusterError(f"cannot signal process {running.supervisor}: {fault.strerror}") from None
    deadline = time.monotonic() + _DOWN_S
    with status_line() as report_progress:
        report_progress("stopping the brokers")
        while is_locked(data_dir):
            if time.monotonic() > deadline:
                raise ClusterError(f"process {running.supervisor} has not stopped in {_DOWN_S:g} s")
            time.sleep(0.1)
    print("the cluster is stopped")
    return 0
