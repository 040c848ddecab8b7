"""`--watch`: the same listing again and again, until Ctrl-C.

On a terminal each listing replaces the last one; elsewhere they follow one another. A cluster that does not answer for
a while does not end it: operators watch for exactly that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import Target, run
from qanat.app.terminal.standard_streams import print_error
from qanat.connection.cluster import Cluster
from qanat.connection.faults import OutOfTimeError, UnreachableError

Result = TypeVar("Result")

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_SECONDS_MAX = 24 * 60 * 60


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Watch:
    """Whether to list once or repeatedly."""

    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative="")] = False
    """Repeat the listing until Ctrl-C."""
    every: Annotated[float, Parameter(name="--every")] = 2.0
    """With --watch: seconds between two listings."""


ONCE = Watch()


def show(
    target: Target, watch: Watch, look: Callable[[Cluster], Awaitable[Result]], print_it: Callable[[Result], None]
) -> None:
    """Look and print, once or repeatedly."""
    if not watch.watch:
        print_it(run(target, look))
        return
    if not 0.1 <= watch.every <= _SECONDS_MAX:
        raise WrongArgumentError(f"--every {watch.every:g}: write seconds, from 0.1 to {_SECONDS_MAX}")
    run(target, lambda cluster: _again_and_again(cluster, watch.every, look, print_it))


async def _again_and_again(
    cluster: Cluster,
    every_s: float,
    look: Callable[[Cluster], Awaitable[Result]],
    print_it: Callable[[Result], None],
) -> None:
    found = await look(cluster)
    while True:
        if sys.stdout.isatty():
            print(f"{_CLEAR}{time.strftime('%H:%M:%S')}, every {every_s:g} s, end with Ctrl-C\n")
        print_it(found)
        sys.stdout.flush()
        found = await _next(cluster, every_s, look)


async def _next(cluster: Cluster, every_s: float, look: Callable[[Cluster], Awaitable[Result]]) -> Result:
    while True:
        await asyncio.sleep(every_s)
        try:
            return await look(cluster)
        except (UnreachableError, OutOfTimeError) as fault:
            print_error(str(fault))
