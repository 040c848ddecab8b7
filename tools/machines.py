"""Another machine for brokers: a network namespace with an address of its own, and a cable (Linux, root)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

_SPACE, _HERE, _THERE = "qanat-there", "qanat-h", "qanat-t"
_ADDRESS_HERE, _ADDRESS_THERE = "10.98.0.1", "10.98.0.2"


class Machine(NamedTuple):
    """The address of a machine, and the words before a command that runs there."""

    host: str = "127.0.0.1"
    before: tuple[str, ...] = ()


THIS = Machine()


@contextmanager
def another_machine() -> Iterator[Machine]:
    """A machine that can be reached, but whose addresses are not of this one."""
    with ExitStack() as stack:
        _run("ip", "netns", "add", _SPACE)
        stack.callback(_run, "ip", "netns", "del", _SPACE)
        _run("ip", "link", "add", _HERE, "type", "veth", "peer", "name", _THERE, "netns", _SPACE)
        _run("ip", "addr", "add", f"{_ADDRESS_HERE}/24", "dev", _HERE)
        _run("ip", "link", "set", _HERE, "up")
        _run("ip", "-n", _SPACE, "addr", "add", f"{_ADDRESS_THERE}/24", "dev", _THERE)
        _run("ip", "-n", _SPACE, "link", "set", "lo", "up")
        _run("ip", "-n", _SPACE, "link", "set", _THERE, "up")
        # `ip netns exec` becomes the command itself, so that a kill reaches it.
        yield Machine(_ADDRESS_THERE, ("ip", "netns", "exec", _SPACE))


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
