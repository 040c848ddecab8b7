"""Signals of a restricted process: they reach what it starts, and not its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, subprocess, sys, threading
from qanat.app.handlers.signal_scope import keep_signals_inside

if len(sys.argv) > 1:
    os.setuid(int(sys.argv[1]))
if pid := os.fork():
    print("ended by", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sys.exit()

print(keep_signals_inside(), flush=True)

def kill_the_parent():
    try:
        os.kill(os.getppid(), signal.SIGKILL)
    except PermissionError:
        print("refused", flush=True)

kill_the_parent()
thread = threading.Thread(target=kill_the_parent)
thread.start()
thread.join()
child = subprocess.Popen(["sleep", "600"])
child.kill()
print(child.wait(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("user", [[], ["65534"]])
def test_a_restricted_process_can_kill_its_children_and_itself_and_not_its_parent(user: list[str]) -> None:
    if user and os.getuid() != 0:
        pytest.skip("another user cannot be tried")
    done = subprocess.run([sys.executable, "-c", PROGRAM, *user], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    if lines[:1] == ["False"]:
        pytest.skip("this kernel has no scopes for signals")
    assert lines == ["True", "refused", "refused", str(-signal.SIGKILL), f"ended by {-signal.SIGTERM}"], done
