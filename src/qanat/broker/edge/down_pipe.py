"""The pipe to the parent: asks for what comes after the logs' ends, and has the answers carried out.

Requests go out on connections that are kept; the parent parks them while there is nothing new. While there is a
backlog, the next one leaves before the present answer is whole, so that the link never waits (`edge.pace`).

Rule 1: an answer of a former parent is not applied: the loop asks one parent, and applies answers in their order. What
        was asked for ahead rests on the answer before; where that was not applied whole, it is of another position than
        the log's, and `MirroredTopics.apply` leaves it.
Rule 2: every fault of a parent ends in a pause and the next request; nothing but closing ends the pipe.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec

from qanat.broker.edge.http_client import HttpAnswer, HttpClient, SilentError
from qanat.broker.edge.json_feed import JsonFeed, ask_feed
from qanat.broker.edge.mirrored_topics import MirroredTopics
from qanat.connection.faults import UnreachableError
from qanat.edge.backoff import Backoff, spread
from qanat.edge.feeds import Feed, FeedSettings, MakeFeed
from qanat.edge.health import Health, LagAge
from qanat.edge.key_filter import split_entry
from qanat.edge.mirror import STOPPED_RETRY_MS, Stop, Wait
from qanat.edge.pace import Pace, in_order
from qanat.edge.parents import ParentChoice
from qanat.edge.settings import EdgeSettings
from qanat.edge.topology import OWN_SCHEMES, Parent, Topology, is_loop, is_wanted, keys_wanted
from qanat.model.errors import QanatError, StorageError, StoreUnavailableError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import log_event
from qanat.wire.pipe_answer import (
    PipedPartition,
    PipedTopic,
    PipedTopics,
    PipeFaultError,
    PipePosition,
    PipeRequest,
    decode_answer,
    decode_head,
)

PARKED_S = 25.0
_TOPICS_S = 5.0
"""How long a request is parked, and how often the parent is asked which topics it has, where they may have changed."""
_SAME_TOPICS_S = 60.0
"""How often it is asked where it says that its metadata is the same: rights may have changed."""
_STALLED_MS_MAX = 5_000
"""How often a node whose own disk refuses records tries again."""
_AHEAD_MAX = 2
"""One answer may arrive, and the next be asked for, while one is made durable."""
_TOPICS = msgspec.json.Decoder(PipedTopics)


class _Asked:
    """A request that is on its way."""

    def __init__(self, wanted: list[PipePosition]) -> None:
        self.wanted = wanted
        self.answer: asyncio.Task[HttpAnswer]
        self.is_judged = False
        """Whether it was decided to ask for more before the answer is whole, or not to."""
        self.size = 0
        """Bytes of its body that are here."""
        self.arrived_before: int | None = None
        """Bytes that had arrived on all connections before its first."""
        self.arrived_by = 0
        """The same, when its last was here."""

    @property
    def alongside(self) -> int:
        """Bytes of other answers that came between its first byte and its last."""
        return 0 if self.arrived_before is None else self.arrived_by - self.arrived_before - self.size


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class DownPipe:
    """The pipe of one node. `run` until cancelled; `steer` with each topology."""

    def __init__(self, node: str, settings: EdgeSettings, mirrors: MirroredTopics, make_feed: MakeFeed) -> None:
        self._node = node
        self._make_feed = make_feed
        self._settings = settings
        self._mirrors = mirrors
        self._patterns: tuple[str, ...] = ()
        self._priority = tuple(one.strip() for one in settings.pipe_priority_topics.split(",") if one.strip())
        self.choice = ParentChoice((), random.random, _now_ms())
        self.pace = Pace(settings.pipe_max_bytes_per_s)
        self.path: tuple[str, ...] = ()
        """The present parent and the nodes that its data comes through."""
        self.last_fault = ""
        self._own_backoff = Backoff(random.random, longest_ms=_STALLED_MS_MAX)
        self.lag_records = 0
        """Records below the parent's high watermark that we lack, by its last answer."""
        self.lag_ms = 0
        """For how long we have lacked some of them."""
        self.requests = self.failures = self.received_bytes = 0
        self._clients: tuple[Parent, list[HttpClient]] | None = None
        """To the present parent: one, and one for what is asked for ahead; they take turns."""
        self._feed: tuple[Parent, Feed] | None = None
        self._ahead: deque[_Asked] = deque()
        """What was asked for after the answer that is waited for or applied."""
        self._steered = asyncio.Event()
        self._asked_topics: tuple[Parent, float, list[TopicPartition]] | None = None
        self._topics_revisions = -1, -1
        """Of the parent's metadata and of ours, when it was asked for its topics, at `_topics_asked_s`."""
        self._topics_asked_s = 0.0
        self._looking: asyncio.Task[PipedTopics] | None = None
        """The question for the parent's topics, where it goes beside answers."""
        self._arrived = 0
        """Bytes of answers, as they arrive on all connections."""
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._lag_ages: dict[TopicPartition, LagAge] = {}
        self._stopped_until: dict[TopicPartition, float] = {}
        self._asking: asyncio.Task[int] | None = None

    @property
    def health(self) -> Health:
        return Health.HEALTHY if self.choice.current is None else self.choice.health.at(_now_ms())

    def steer(self, topology: Topology) -> None:
        """Pull from these parents, these topics, from now on."""
        is_other = self.choice.replace(topology.parents, _now_ms()) or topology.topics != self._patterns
        self._patterns = topology.topics
        if is_other:
            self._give_up_ahead()
            self._asked_topics = None
            self._stopped_until.clear()
            self._steered.set()
            if self._asking is not None:
                self._asking.cancel()

    async def run(self) -> None:
        """Pull for ever."""
        while True:
            self._steered.clear()
            if self.choice.current is None:
                await self._steered.wait()
                continue
            pause_ms = await self._turn(self.choice.current)
            if pause_ms:
                try:
                    async with asyncio.timeout(pause_ms / 1000):
                        await self._steered.wait()
                except TimeoutError:
                    pass

    async def _turn(self, parent: Parent) -> int:
        """One request; returns how long to wait before the next."""
        self._asking = asyncio.ensure_future(self._ask(parent))
        try:
            pause_ms = await self._asking
        except asyncio.CancelledError:
            if self._steered.is_set():
                return 0  # The parent has changed: its request was given up.
            raise
        except (StorageError, StoreUnavailableError) as fault:
            return self._stalled(str(fault))
        except QanatError as fault:
            return await self._failed(parent, str(fault), is_silent=isinstance(fault, SilentError))
        finally:
            self._asking = None
        self._own_backoff.succeeded()
        if self.last_fault:
            log_event("pipe works again", parent=parent.node)
        self.last_fault = ""
        self.choice.succeeded(_now_ms(), self.lag_ms)
        await self._probe()
        return pause_ms

    def _stalled(self, reason: str) -> int:
        """This node cannot store what its parent has, such as on a full disk: it tries again, and stays with the
        parent, as another one would not help."""
        self._give_up_ahead()
        self.failures += 1
        if reason != self.last_fault:
            log_event("records of the parent cannot be stored here", level="error", reason=reason)
        self.last_fault = reason
        self.choice.health.stalled(_now_ms())
        return self._own_backoff.failed()

    async def _failed(self, parent: Parent, reason: str, *, is_silent: bool) -> int:
        self._give_up_ahead()
        self.failures += 1
        if reason != self.last_fault:
            log_event("parent does not answer", level="warning", parent=parent.node, reason=reason)
        self.last_fault = reason
        pause_ms = self.choice.failed(_now_ms(), is_silent=is_silent)
        if self.choice.current != parent and self.choice.current is not None:
            log_event("next parent", parent=self.choice.current.node)
            self._asked_topics = None
        return pause_ms

    async def _probe(self) -> None:
        """Ask an earlier parent whether it works again."""
        earlier = self.choice.to_probe(_now_ms())
        if earlier is None:
            return
        client = HttpClient(earlier.url, authorization=self._settings.edge_authorization)
        try:
            found = await self._topics_of(client)
            is_fit = not is_loop(found.path, self._node)
        except QanatError:
            is_fit = False
        finally:
            await client.close()
        if self.choice.probed(is_fit=is_fit, now_ms=_now_ms()):
            log_event("back to an earlier parent", parent=earlier.node)
            self._asked_topics = None

    # One request

    async def _ask(self, parent: Parent) -> int:
        if parent.is_feed:
            return await self._ask_feeds(parent, await self._feed_of(parent))
        client = await self._client_of(parent)
        if self._ahead:
            asked = self._ahead.popleft()
            await self._look_beside(parent)
        else:
            wanted = self._positions(await self._partitions(parent, client))
            if not wanted:
                return spread(self._settings.pipe_poll_interval_ms, random.random)
            wait_ms = self.pace.wait_ms(_now_ms())
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)
            asked = self._send(client, wanted)
        answer = await asked.answer
        _require_ok(parent, answer.status, answer.body)
        self.received_bytes += len(answer.body)
        self.pace.answered(len(answer.body), answer.waited_ms, answer.took_ms, _now_ms(), asked.alongside)
        head, records = decode_answer(answer.body)
        self._check_path(parent, head.path)
        self._note_revision(head.revision)
        return await self._apply(head.partitions, records, asked.wanted)

    def _send(self, client: HttpClient, wanted: list[PipePosition]) -> _Asked:
        self.requests += 1
        # Stopped partitions and new topics have their turn as well.
        parked_s = min(PARKED_S, _TOPICS_S)
        request = PipeRequest(self._node, wanted, round(parked_s * 1000), self.pace.answer_bytes())
        body = msgspec.json.encode(request)
        target = "/api/v1/edge/pipe"
        asked = _Asked(wanted)
        on_part = partial(self._arrives, asked)
        asking = client.request("POST", target, body=body, wait_s=parked_s, is_repeatable=True, on_part=on_part)
        asked.answer = asyncio.ensure_future(asking)
        return asked

    def _arrives(self, asked: _Asked, parts: Sequence[bytes], size: int, whole: int) -> None:
        """A part of an answer is here."""
        if asked.arrived_before is None:
            asked.arrived_before = self._arrived
        self._arrived += size - asked.size
        asked.size, asked.arrived_by = size, self._arrived
        if not asked.is_judged and len(self._ahead) < _AHEAD_MAX and whole - size <= self.pace.ahead_bytes():
            self._ask_ahead(asked, parts)

    def _ask_ahead(self, asked: _Asked, parts: Sequence[bytes]) -> None:
        """Send the next request where the present answer is nearly here, and leaves a backlog."""
        asked.is_judged, known = True, self._asked_topics
        if known is None or self._clients is None:
            return
        try:
            head, _ = decode_head(memoryview(b"".join(parts)))
        except PipeFaultError:
            return  # It is not here yet, or the whole answer will be refused.
        if not any(one.next is not None and one.next[0] < one.high_watermark for one in head.partitions):
            return
        # Those that were stopped or did not exist, when the answer was asked for, have their turn as well.
        stands = {TopicPartition(one.topic, one.partition): one for one in self._positions(known[2])}
        asked_for = {TopicPartition(one.topic, one.partition): one for one in asked.wanted}
        stands |= {at: asked_for[at] for at in known[2] if at in asked_for}
        for one in head.partitions:
            if one.next is not None:
                at = TopicPartition(one.topic, one.partition)
                stands[at] = PipePosition(one.topic, one.partition, *one.next, keys=one.keys)
        wanted = [stands[at] for at in self._ordered(list(stands))]
        clients = self._clients[1]
        clients.reverse()
        self._ahead.append(self._send(clients[0], wanted))

    def _give_up_ahead(self) -> None:
        while self._ahead:
            _give_up(self._ahead.pop().answer)
        looking, self._looking = self._looking, None
        if looking is not None:
            _give_up(looking)

    async def _feed_of(self, parent: Parent) -> Feed:
        if self._feed is not None and self._feed[0] == parent:
            return self._feed[1]
        await self.close()
        if parent.scheme in OWN_SCHEMES:
            feed: Feed = JsonFeed(await self._client_of(parent), self._node)
        else:
            feed = self._make_feed(
                parent.scheme, FeedSettings(parent.url, self._node, self._settings.edge_authorization)
            )
        self._feed = parent, feed
        return feed

    async def _ask_feeds(self, parent: Parent, feed: Feed) -> int:
        """One request for each topic; the feed may park it where there is only one."""
        topics = dict.fromkeys(split_entry(one)[0] for one in self._patterns)
        names = [one for one in topics if not one.endswith("*")]
        offered = [PipedTopic(name, f"feed:{parent.node}/{name}", 1) for name in names]
        partitions = await self._mirrors.ensure(offered, lambda topic: keys_wanted(topic, self._patterns))
        self.path = (parent.node,)
        wanted = self._positions(partitions)
        is_news = False
        for position in wanted:
            self.requests += 1
            wait_s = PARKED_S if len(wanted) == 1 else 0.0
            piece, records = await ask_feed(feed, position, self._settings.pipe_batch_size, wait_s)
            self.received_bytes += len(records)
            await self._apply((piece,), [records], [position])
            is_news = is_news or len(records) > 0
        return 0 if is_news else spread(self._settings.pipe_poll_interval_ms, random.random)

    async def _apply(
        self, partitions: tuple[PipedPartition, ...], records: list[memoryview], wanted: list[PipePosition]
    ) -> int:
        asked = {TopicPartition(one.topic, one.partition): one for one in wanted}
        await self._mirrors.begin([*zip(partitions, records, strict=True)])
        has_moved = is_news = False
        for answered, batches in zip(partitions, records, strict=True):
            at = TopicPartition(answered.topic, answered.partition)
            if at not in asked:
                continue
            self._high_watermarks[at] = answered.high_watermark
            step = await self._mirrors.apply(answered, batches, asked[at])
            has_moved = has_moved or not isinstance(step, Wait | Stop)
            is_news = is_news or len(batches) > 0 or bool(answered.error) or answered.diverging is not None
            if isinstance(step, Stop):
                self._stopped_until[at] = time.monotonic() + STOPPED_RETRY_MS / 1000
        self._count_lag()
        if has_moved or not is_news:
            return 0  # Where nothing is new, the parent has parked the request.
        return spread(self._settings.pipe_poll_interval_ms, random.random)

    def _count_lag(self) -> None:
        lag = age_ms = 0
        for at, high_watermark in list(self._high_watermarks.items()):
            position = self._mirrors.position(at)
            if position is None:
                del self._high_watermarks[at]
                self._lag_ages.pop(at, None)
            else:
                lag += max(0, high_watermark - position.offset)
                known = self._lag_ages.setdefault(at, LagAge())
                age_ms = max(age_ms, known.answered(position.offset, high_watermark, _now_ms()))
        self.lag_records, self.lag_ms = lag, age_ms

    def _positions(self, partitions: list[TopicPartition]) -> list[PipePosition]:
        """The positions to ask for, in the order of their priority."""
        now = time.monotonic()
        due = [at for at in partitions if self._stopped_until.get(at, 0.0) <= now]
        found = (self._mirrors.position(at) for at in self._ordered(due))
        return [one for one in found if one is not None]

    def _ordered(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        first = [at for at in partitions if self._priority and is_wanted(at.topic, self._priority)]
        rest = [at for at in partitions if at not in first]
        return in_order([first, rest] if first else [rest], self.requests)

    async def _client_of(self, parent: Parent) -> HttpClient:
        if self._clients is None or self._clients[0] != parent:
            await self.close()
            both = [HttpClient(parent.url, authorization=self._settings.edge_authorization) for _ in range(2)]
            self._clients = parent, both
        return self._clients[1][0]

    async def _partitions(self, parent: Parent, client: HttpClient) -> list[TopicPartition]:
        """The partitions to pull; the parent is asked for its topics now and then."""
        known = self._asked_topics
        if self._looking is None and known is not None and known[0] == parent and known[1] > time.monotonic():
            return known[2]
        looking, self._looking = self._looking or asyncio.ensure_future(self._topics_of(client)), None
        return await self._take_topics(parent, await looking)

    async def _look_beside(self, parent: Parent) -> None:
        """While answers come, ask for the parent's topics on the connection that waits: they hold nothing up."""
        known = self._asked_topics
        if self._looking is not None and self._looking.done():
            looking, self._looking = self._looking, None
            await self._take_topics(parent, looking.result())
        elif self._looking is None and self._clients is not None and (known is None or known[1] <= time.monotonic()):
            self._looking = asyncio.ensure_future(self._topics_of(self._clients[1][-1]))

    async def _take_topics(self, parent: Parent, found: PipedTopics) -> list[TopicPartition]:
        self._check_path(parent, found.path)
        partitions = await self._mirrors.ensure(found.topics, lambda topic: keys_wanted(topic, self._patterns))
        self._topics_revisions, self._topics_asked_s = (found.revision, self._mirrors.revision), time.monotonic()
        self._asked_topics = parent, self._topics_asked_s + _TOPICS_S, partitions
        return partitions

    def _note_revision(self, revision: int) -> None:
        """While the metadata of both sides is the same, the parent's topics need not be asked for."""
        known = self._asked_topics
        if known is not None:
            is_same = revision >= 0 and (revision, self._mirrors.revision) == self._topics_revisions
            until = self._topics_asked_s + (_SAME_TOPICS_S if is_same else _TOPICS_S)
            self._asked_topics = known[0], until, known[2]

    async def _topics_of(self, client: HttpClient) -> PipedTopics:
        target = "/api/v1/edge/pipe/topics?" + urlencode({"node": self._node})
        answer = await client.request("GET", target, is_repeatable=True)
        if answer.status != 200:
            raise UnreachableError(f"its topics: status {answer.status}: {_detail(answer.body)}")
        try:
            return _TOPICS.decode(answer.body)
        except msgspec.MsgspecError as fault:
            raise PipeFaultError(f"its topics cannot be read: {fault}") from None

    def _check_path(self, parent: Parent, path: tuple[str, ...]) -> None:
        if is_loop(path, self._node):
            raise PipeFaultError(f"the data of parent {parent.node} comes through this node: {' < '.join(path)}")
        self.path = path

    async def close(self) -> None:
        self._give_up_ahead()
        feed, self._feed = self._feed, None
        if feed is not None:
            await feed[1].close()
        clients, self._clients = self._clients, None
        for one in () if clients is None else clients[1]:
            await one.close()


def _give_up(request: asyncio.Task[Any]) -> None:
    request.add_done_callback(_take_exception)
    request.cancel()


def _take_exception(given_up: asyncio.Task[Any]) -> None:
    if not given_up.cancelled():
        given_up.exception()


def _require_ok(parent: Parent, status: int, body: bytes) -> None:
    if status != 200:
        raise UnreachableError(f"parent {parent.node} answers with status {status}: {_detail(body)}")


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["detail"])[:300]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return body[:100].decode("latin-1")
