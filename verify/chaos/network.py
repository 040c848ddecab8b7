"""The network of a run: a bridge, a network namespace for each machine, and directions that can be cut.

Neighbour entries are permanent. To cut a direction, the sender gets a hardware address that no machine has: its packets
vanish on the bridge without an error, in that direction only. This needs neither packet filter nor traffic control,
which small kernels lack.

Names carry the id of the process that made them; the next run removes the leftovers of a dead process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence

HOST = "host"
"""The machine at the bridge itself, where clients run."""
_UNUSED_ADDRESS = "02:71:00:00:00:ff"
_LEFTOVER = re.compile(r"qanat-chaos-(\d+)-")

Direction = tuple[str, str]
"""From one machine to another."""


class NetworkUnavailableError(Exception):
    """Network namespaces are not possible here; the message says why."""


class Network:
    """Machines by name, each with an address. `close` removes everything, in any state."""

    def __init__(self, machines: Sequence[str]) -> None:
        self._mark = f"qanat-chaos-{os.getpid()}"
        self._bridge = f"qb{os.getpid()}"
        self._machines = (HOST, *machines)
        self._cut: Counter[Direction] = Counter()

    def open(self) -> None:
        """Create the network; raises `NetworkUnavailableError`."""
        if os.geteuid() != 0:
            raise NetworkUnavailableError("network namespaces need root")
        if shutil.which("ip") is None:
            raise NetworkUnavailableError("there is no `ip` on this machine (Debian: apt install iproute2)")
        remove_leftovers()
        self._prefix = _free_prefix()
        try:
            self._make()
        except subprocess.CalledProcessError as fault:
            self.close()
            raise NetworkUnavailableError(f"{' '.join(fault.cmd)}: {fault.stderr.strip()}") from None

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "address", _hardware(0), "type", "bridge")
        _ip("addr", "add", f"{self.address(HOST)}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number, machine in enumerate(self._machines):
            if machine != HOST:
                self._add(number, machine)
        for sender in self._machines:
            for receiver in self._machines:
                if sender != receiver:
                    self._teach(sender, receiver, self._hardware_of(receiver))

    def _add(self, number: int, machine: str) -> None:
        space, near = self._space(machine), f"qv{os.getpid()}n{number}"
        _ip("netns", "add", space)
        far = ("peer", "name", "eth0", "address", _hardware(number), "netns", space)
        _ip("link", "add", near, "type", "veth", *far)
        _ip("link", "set", near, "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{self.address(machine)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def close(self) -> None:
        for machine in self._machines:
            if machine != HOST:
                _remove_space(self._space(machine))
        _remove_links(os.getpid())

    def address(self, machine: str) -> str:
        return f"{self._prefix}.{1 + self._machines.index(machine)}"

    def inside(self, machine: str) -> tuple[str, ...]:
        """The prefix of a command that runs on a machine."""
        return ("ip", "netns", "exec", self._space(machine))

    def cut(self, directions: Iterable[Direction]) -> None:
        """Cut directions; a direction that is cut twice must be joined twice."""
        for direction in directions:
            self._cut[direction] += 1
            self._teach(*direction, _UNUSED_ADDRESS)

    def join(self, directions: Iterable[Direction]) -> None:
        for sender, receiver in directions:
            self._cut[sender, receiver] -= 1
            if not self._cut[sender, receiver]:
                self._teach(sender, receiver, self._hardware_of(receiver))

    def _teach(self, sender: str, receiver: str, hardware: str) -> None:
        device, inside = ("eth0", ("-n", self._space(sender))) if sender != HOST else (self._bridge, ())
        fact = (self.address(receiver), "lladdr", hardware, "dev", device, "nud", "permanent")
        _ip(*inside, "neigh", "replace", *fact)

    def _space(self, machine: str) -> str:
        return f"{self._mark}-{machine}"

    def _hardware_of(self, machine: str) -> str:
        return _hardware(self._machines.index(machine))


def both_directions(one: str, others: Iterable[str]) -> list[Direction]:
    """Every direction between a machine and some others."""
    return [direction for other in others for direction in ((one, other), (other, one))]


def remove_leftovers() -> None:
    """Remove the namespaces and links of processes that were killed."""
    for line in _ip("netns", "list", is_needed=False).splitlines():
        found = _LEFTOVER.match(line)
        if found and not _is_alive(int(found[1])):
            _remove_space(line.split()[0])
            _remove_links(int(found[1]))


def _remove_space(space: str) -> None:
    for pid in _ip("netns", "pids", space, is_needed=False).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "del", space, is_needed=False)


def _remove_links(pid: int) -> None:
    for name in re.findall(rf"^\d+: (qv{pid}n\d+|qb{pid})[:@]", _ip("-o", "link", is_needed=False), re.MULTILINE):
        _ip("link", "del", name, is_needed=False)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _free_prefix() -> str:
    """The first three numbers of an unused network."""
    taken = _ip("-4", "addr", "show")
    for step in range(10_000):
        number = os.getpid() + step
        prefix = f"10.{200 + number // 250 % 50}.{number % 250}"
        if f" {prefix}." not in taken:
            return prefix
    raise NetworkUnavailableError("every address from 10.200 to 10.249 is taken")


def _hardware(number: int) -> str:
    return f"02:71:00:00:00:{number + 1:02x}"


def _ip(*words: str, is_needed: bool = True) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=is_needed)
    return done.stdout
