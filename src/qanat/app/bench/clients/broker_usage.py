"""Processor time and memory of brokers on this machine, found by the port on which they listen.

Linux shows them under /proc for processes of the same user. Brokers elsewhere, or of other users, have no figures.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SCHEDULED = 2
"""CPUCLOCK_SCHED, as clock_getcpuclockid(3) has it: /proc counts in hundredths of a second."""
_LISTENING = "0A"
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of all brokers together, so far."""

    cpu_s: float
    resident_bytes: int


def broker_pids(addresses: Iterable[tuple[str, int]]) -> list[int]:
    """The processes behind these addresses; empty unless all run here and belong to this user."""
    found: list[int] = []
    for host, port in addresses:
        pid = _listener(port) if _is_here(host) else None
        if pid is None:
            return []
        found.append(pid)
    return sorted(set(found))


def usage(pids: Iterable[int]) -> Usage | None:
    """Usage of these processes; None where one has ended, or there is none."""
    cpu_s, resident_bytes, count = 0.0, 0, 0
    for pid in pids:
        try:
            cpu_s += time.clock_gettime((~pid << 3) | _SCHEDULED)
            resident_bytes += _resident_bytes(pid)
        except (OSError, ValueError):
            return None
        count += 1
    return Usage(cpu_s, resident_bytes) if count else None


def _is_here(host: str) -> bool:
    """Whether a host is this machine: only its own addresses can be bound."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def _listener(port: int) -> int | None:
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        # Skip processes of other users, and those that end meanwhile.
        with suppress(OSError), os.scandir(process / "fd") as entries:
            if any(_points_to(entry.path) in wanted for entry in entries):
                return int(process.name)
    return None


def _points_to(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * _KIB
    raise ValueError("no VmRSS")
