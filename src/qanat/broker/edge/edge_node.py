"""This broker as a node of the tree: it registers, keeps the last topology, pulls from the parent that it names, and
sends up what lies in its outboxes.

Rule 1: a topology is kept before it is followed. Without an answer of the registry, the kept one is in force.
Rule 2: nothing of the registry stops the pipe, and nothing of the pipe stops asking the registry.
"""

from __future__ import annotations

import asyncio
import random
from urllib.parse import quote

import msgspec

from qanat.broker.edge.down_pipe import DownPipe
from qanat.broker.edge.edge_host import EdgeHost
from qanat.broker.edge.edge_state import EdgeState
from qanat.broker.edge.http_client import HttpAnswer, HttpClient
from qanat.broker.edge.mirrored_topics import MirroredTopics
from qanat.broker.edge.up_pipe import UpPipe
from qanat.connection.faults import UnreachableError
from qanat.edge.backoff import Backoff, spread
from qanat.edge.feeds import MakeFeed
from qanat.edge.mirror import OnGap
from qanat.edge.node_state import HEADER, NodeState, encode_state
from qanat.edge.settings import EdgeSettings
from qanat.edge.topology import Role, Topology, why_refused
from qanat.model.errors import QanatError
from qanat.telemetry.events import failure, log_event

_PARKED_S = 25.0
_TOPOLOGY = msgspec.json.Decoder(Topology)
_REGISTRY_BYTES_MAX = 1024 * 1024


class EdgeNode:
    """One node. `start` when HTTP is served, `close` before the broker closes."""

    def __init__(
        self, broker: EdgeHost, name: str, settings: EdgeSettings, own_url: str | None, make_feed: MakeFeed
    ) -> None:
        self._broker = broker
        self.name = name
        self._settings = settings
        self._own_url = settings.edge_url or own_url
        self._state = EdgeState(broker.metadata.store)
        self.mirrors = MirroredTopics(broker, self._state, OnGap(settings.pipe_on_gap))
        self.pipe = DownPipe(name, settings, self.mirrors, make_feed)
        self.up = UpPipe(broker, settings, self._state)
        self.topology: Topology | None = None
        self.registry_fault = ""
        """Why the registry was not asked with success the last time; empty where it was."""
        self._is_registered = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Follow the kept topology, and ask the registry for a later one."""
        await self.mirrors.load()
        self.topology = await self._state.topology()
        if self.topology is not None and why_refused(self.topology, None, self.name, self._claimed) is None:
            self._steer(self.topology)
        works = (self._ask_for_ever(), self.pipe.run(), self.up.run())
        self._tasks = [self._broker.park(work) for work in works]
        for task in self._tasks:
            task.add_done_callback(_report_end)

    @property
    def state(self) -> NodeState:
        """What the registry is told."""
        pipe, up = self.pipe, self.up
        stopped = len(self.mirrors.stopped)
        return NodeState(pipe.health, pipe.lag_records, stopped, up.lag_records, up.waiting, up.stopped)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pipe.close()
        await self.up.close()

    def _steer(self, topology: Topology) -> None:
        self.pipe.steer(topology)
        self.up.steer(topology)

    @property
    def _claimed(self) -> Role | None:
        return Role(self._settings.edge_role) if self._settings.edge_role else None

    async def _ask_for_ever(self) -> None:
        client = HttpClient(
            self._settings.registry_url,
            authorization=self._settings.edge_authorization,
            answer_bytes_max=_REGISTRY_BYTES_MAX,
        )
        backoff = Backoff(random.random)
        try:
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    is_changed = await self._ask(client)
                    backoff.succeeded()
                    self._note_fault("")
                except QanatError as fault:
                    self._note_fault(str(fault))
                    self._is_registered = False
                    await asyncio.sleep(backoff.failed() / 1000)
                    continue
                # A registry that parks requests has waited already.
                took_s = asyncio.get_running_loop().time() - began
                if not is_changed and took_s < _PARKED_S / 2:
                    await asyncio.sleep(spread(self._settings.registry_poll_interval_ms, random.random) / 1000)
        finally:
            await client.close()

    def _note_fault(self, reason: str) -> None:
        if reason and reason != self.registry_fault:
            log_event("registry does not answer", level="warning", reason=reason)
        elif self.registry_fault and not reason:
            log_event("registry answers again")
        self.registry_fault = reason

    async def _ask(self, client: HttpClient) -> bool:
        """Register where that is due, else ask for a later topology; whether there is one."""
        if not self._is_registered:
            said = {"node": self.name, "instance": self._broker.metadata.image.cluster_id, "url": self._own_url}
            if self._claimed is not None:
                said["role"] = self._claimed.value
            answer = await client.request(
                "POST", "/api/v1/edge/nodes", body=msgspec.json.encode(said), wait_s=10.0, is_repeatable=True
            )
            found = await self._take(answer)
            self._is_registered = True
            return found
        seen = -1 if self.topology is None else self.topology.version
        headers = {"If-None-Match": f'"{seen}"', HEADER: encode_state(self.state)}
        target = f"/api/v1/edge/topology/{quote(self.name, safe='')}?timeout_ms={round(_PARKED_S * 1000)}"
        answer = await client.request("GET", target, headers=headers, wait_s=_PARKED_S, is_repeatable=True)
        return await self._take(answer)

    async def _take(self, answer: HttpAnswer) -> bool:
        if answer.status == 304:
            return False
        if answer.status not in (200, 202):
            raise UnreachableError(f"the registry answers with status {answer.status}: {_detail(answer.body)}")
        try:
            offered = _TOPOLOGY.decode(answer.body)
        except msgspec.MsgspecError as fault:
            raise UnreachableError(f"the registry's topology cannot be read: {fault}") from None
        if offered == self.topology:
            return False
        refused = why_refused(offered, self.topology, self.name, self._claimed)
        if refused is not None:
            raise UnreachableError(f"a topology of the registry is refused: {refused}")
        await self._state.keep_topology(offered)
        self.topology = offered
        role = None if offered.role is None else offered.role.value
        log_event("topology", version=offered.version, role=role, parents=[one.node for one in offered.parents])
        self._steer(offered)
        return True


def _report_end(task: asyncio.Task[None]) -> None:
    """Neither task ends by itself: a fault that is none of a peer's is a bug of ours, and must not end in silence."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        failure("bug in a node of the tree: it has stopped", fault)


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["detail"])[:300]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return body[:100].decode("latin-1")
