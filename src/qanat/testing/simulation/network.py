"""A seeded network: connections between machines, with delays, silence, resets and one-way partitions.

A connection is two streams. Bytes arrive in order, each piece after a delay of its own and never before the
piece ahead of it, split anywhere. While the path from one machine to another is cut, sent bytes wait, as with
TCP's retransmissions; a connect waits for its timeout. When the cut ends, some connections continue and
some are reset; after a quarter of an hour all are, since TCP has given up. A path may have a rate and lose segments
(`shape`), each direction for itself.

A killed process resets its connections; a machine that loses power falls silent.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from qanat.testing.simulation.links import SimLink
from qanat.testing.simulation.loop import OWNER, Owner, SimLoop

_CONNECT_TIMEOUT_S = 3.0
_RESET_AFTER_CUT = 0.5
_GIVE_UP_S = 900.0
_HIGH_WATER = 64 * 1024


class SimNetwork:
    """All machines and the network between them."""

    def __init__(self, loop: SimLoop, seed: int | str, mean_delay_s: float = 0.0005, slow_share: float = 0.0) -> None:
        self._loop = loop
        self._random = Random(f"network {seed}")
        self.mean_delay_s = mean_delay_s
        self._slow_share = slow_share
        """The share of slow connections, also between machines that have fast ones."""
        self._listeners: dict[tuple[str, int], SimServer] = {}
        self._streams: list[_Stream] = []
        self._cut: dict[tuple[str, str], float] = {}
        """Paths on which nothing gets through, from machine to machine, and since when."""
        self._links: dict[tuple[str, str], SimLink] = {}
        """Paths with a rate or loss."""
        self._refused: dict[tuple[str, str], None] = {}
        """Paths on which every connection is refused, as by a rejecting firewall."""
        self._next_port = 40_000
        self.sent_bytes = 0

    def delay(self, mean_s: float | None = None) -> float:
        return self._random.expovariate(1 / (mean_s or self.mean_delay_s))

    def _mean_delay_s(self) -> float:
        """The mean delay of a new connection."""
        if self._slow_share and self._random.random() < self._slow_share:
            return self.mean_delay_s * self._random.uniform(10, 200)
        return self.mean_delay_s

    # Faults

    def cut(self, source: str, target: str) -> None:
        self._cut.setdefault((source, target), self._loop.time())

    def shape(
        self, source: str, target: str, *, rate_bytes_per_s: float = 0.0, loss: float = 0.0, delay_s: float = 0.0
    ) -> None:
        """Give the path from one machine to another a rate, a share of lost segments and a delay, from now on."""
        random = Random(f"{source} {target} {self._random.random()}")
        self._links[source, target] = SimLink(random, rate_bytes_per_s=rate_bytes_per_s, loss=loss, delay_s=delay_s)

    def cut_off(self, host: str, others: Iterable[str]) -> list[tuple[str, str]]:
        """Cut all paths between a machine and others; returns those that were open before."""
        ways = [way for other in others for way in ((host, other), (other, host)) if way not in self._cut]
        self._cut.update(dict.fromkeys(ways, self._loop.time()))
        return ways

    def refuse(self, source: str, target: str) -> None:
        """Refuse connections from one machine to another, and reset those between them."""
        self._refused[source, target] = None
        for stream in list(self._streams):
            if stream.way == (source, target):
                stream.reset()

    def accept(self, source: str, target: str) -> None:
        """Undo `refuse`."""
        self._refused.pop((source, target), None)

    def heal(self, ways: Iterable[tuple[str, str]] | None = None) -> None:
        """Let everything through again, or on these paths; some connections do not survive it."""
        now = self._loop.time()
        if ways is None:
            self._refused.clear()
        healed = {way: self._cut.get(way, now) for way in (self._cut if ways is None else ways)}
        self._cut = {way: since for way, since in self._cut.items() if way not in healed}
        for stream in list(self._streams):
            if stream.way in healed:
                if now - healed[stream.way] >= _GIVE_UP_S or self._random.random() < _RESET_AFTER_CUT:
                    stream.reset()
                else:
                    stream.go_on()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def reset_some(self, chance: float) -> None:
        """Reset connections, in the middle of their data."""
        for stream in list(self._streams):
            if self._random.random() < chance:
                stream.reset()

    def forget(self, owner: Owner, *, is_silent: bool) -> None:
        """Remove a machine: its listeners are gone, and its connections are reset, or silent for ever."""
        for address, server in list(self._listeners.items()):
            if server.owner is owner:
                del self._listeners[address]
        for stream in list(self._streams):
            if owner in (stream.source.owner, stream.target.owner):
                if is_silent:
                    stream.fall_silent()
                else:
                    stream.reset()

    # Used by the loop

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> SimServer:
        if not port:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, "address already in use")
        server = SimServer(self, factory, host, port)
        self._listeners[host, port] = server
        return server

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        here = OWNER.get()
        await asyncio.sleep(self.delay())
        waited = 0.0
        while self.is_cut(here.name, host) or self.is_cut(host, here.name):
            await asyncio.sleep(0.1)
            waited += 0.1
            if waited > _CONNECT_TIMEOUT_S:
                raise TimeoutError(errno.ETIMEDOUT, "connection timed out")
        server = self._listeners.get((host, port))
        if server is None or not server.is_serving or (here.name, host) in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
        ours, theirs = factory(), server.context.run(server.factory)
        near = _End(ours, copy_context(), here, ("", 0), (host, port))
        far = _End(theirs, server.context.copy(), server.owner, (host, port), (here.name, 0))
        mean_s = self._mean_delay_s()
        out, back = _Stream(self, near, far, mean_s), _Stream(self, far, near, mean_s)
        out.other, back.other = back, out
        self._streams += [out, back]
        near.transport, far.transport = SimTransport(out, back), SimTransport(back, out)
        ours.connection_made(near.transport)
        self._loop.call_soon(theirs.connection_made, far.transport, context=far.context)
        return near.transport, ours

    def link(self, way: tuple[str, str]) -> SimLink | None:
        return self._links.get(way)

    def drop(self, stream: _Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)


class SimServer:
    """A listening socket."""

    def __init__(self, network: SimNetwork, factory: Callable[[], Any], host: str, port: int) -> None:
        self._network = network
        self.factory = factory
        self.address = (host, port)
        self.context: Context = copy_context()
        self.owner = OWNER.get()
        self.is_serving = False
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self.address

    async def start_serving(self) -> None:
        self.is_serving = True

    def close(self) -> None:
        self.is_serving = False
        self._network._listeners.pop(self.address, None)

    async def wait_closed(self) -> None: ...


class _End:
    """One side of a connection."""

    def __init__(
        self, protocol: Any, context: Context, owner: Owner, name: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        self.protocol = protocol
        self.context = context
        self.owner = owner
        self.name = name
        self.peer = peer
        self.transport: SimTransport


class _Stream:
    """Bytes in transit from one side to the other."""

    other: _Stream

    def __init__(self, network: SimNetwork, source: _End, target: _End, mean_delay_s: float) -> None:
        self._mean_delay_s = mean_delay_s
        self._network = network
        self._loop = network._loop
        self.source = source
        self.target = target
        self.way = (source.owner.name, target.owner.name)
        self._arrives = 0.0
        self._held: list[bytes | None] = []
        self.in_flight = 0
        self.is_over = False
        self._is_reading = True
        self._unread: list[bytes | None] = []

    def send(self, data: bytes | None) -> None:
        """Send bytes, or None for the end."""
        if self.is_over:
            return
        self.in_flight += 0 if data is None else len(data)
        self._network.sent_bytes += 0 if data is None else len(data)
        if self._network.is_cut(*self.way):
            self._held.append(data)
            return
        now = self._loop.time()
        link = self._network.link(self.way)
        if link is not None:
            now = link.arrival_s(now, 0 if data is None else len(data))
        self._arrives = max(self._arrives, now + self._network.delay(self._mean_delay_s))
        self._loop.call_at(self._arrives, self._arrive, data, context=self.target.context)

    def go_on(self) -> None:
        held, self._held = self._held, []
        for data in held:
            self.in_flight -= 0 if data is None else len(data)
            self.send(data)

    def _arrive(self, data: bytes | None) -> None:
        if self.is_over:
            return
        if self._network.is_cut(*self.way):
            self._held.append(data)
            return
        if not self._is_reading:
            self._unread.append(data)
            return
        if data is None:
            self._end(None)
            return
        self.in_flight -= len(data)
        _feed(self.target.protocol, data)
        if self.in_flight < _HIGH_WATER:
            self.source.transport.make_room()

    def pause(self) -> None:
        self._is_reading = False

    def resume(self) -> None:
        self._is_reading = True
        unread, self._unread = self._unread, []
        for data in unread:
            self._loop.call_soon(self._arrive, data, context=self.target.context)

    def reset(self) -> None:
        """Both sides learn that the connection is broken."""
        for stream in (self, self.other):
            stream._end(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def fall_silent(self) -> None:
        """Nothing arrives any more, and neither side learns of it."""
        for stream in (self, self.other):
            stream.is_over = True
            self._network.drop(stream)

    def _end(self, fault: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._network.drop(self)
            target = self.target
            self._loop.call_soon(target.transport.lose, fault, context=target.context)


class SimTransport(asyncio.Transport):
    """The transport of a simulated connection."""

    def __init__(self, out: _Stream, back: _Stream) -> None:
        super().__init__()
        self._out = out
        self._back = back
        self._is_closing = False
        self._is_lost = False
        self._is_full = False

    def write(self, data: Any) -> None:
        if not self._is_closing and len(data):
            self._out.send(bytes(data))
            self._note_size()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(data) for data in list_of_data))

    def _note_size(self) -> None:
        if self._out.in_flight > _HIGH_WATER and not self._is_full:
            self._is_full = True
            self._out.source.protocol.pause_writing()

    def make_room(self) -> None:
        if self._is_full and not self._is_lost:
            self._is_full = False
            source = self._out.source
            asyncio.get_running_loop().call_soon(source.protocol.resume_writing, context=source.context)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._out.send(None)
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self) -> None:
        self._is_closing = True
        self._out.reset()

    def lose(self, fault: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._out.source.protocol.connection_lost(fault)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: Any) -> None:
        self._out.source.protocol = protocol

    def pause_reading(self) -> None:
        self._back.pause()

    def resume_reading(self) -> None:
        self._back.resume()

    def get_write_buffer_size(self) -> int:
        return self._out.in_flight

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        end = self._out.source
        return {"peername": end.peer, "sockname": end.name}.get(name, default)


def _feed(protocol: Any, data: bytes) -> None:
    """Pass bytes to a protocol of either kind, as a transport does."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        protocol.data_received(data)
        return
    view = memoryview(data)
    while view:
        room = memoryview(protocol.get_buffer(len(view)))
        count = min(len(room), len(view))
        room[:count] = view[:count]
        protocol.buffer_updated(count)
        view = view[count:]
