"""What limits one broker by itself: its loop, its disk, its memory for requests, cold reads, the store.

Rule: a judgement asks for two things: that the figure is bad, and that requests lose time by it.
"""

from __future__ import annotations

from qanat.diagnosis.findings import Finding, data, milliseconds, per_second, percent
from qanat.diagnosis.time_split import TimeSplit
from qanat.diagnosis.window import PRODUCE, BrokerWindow, mean

SLOW_FLUSH_S = 0.025
"""A flush of a healthy disk takes less; `qanat doctor` warns at 20 ms."""
WAITING_MIN = 0.25
"""Fewer requests than this, on average at any time, are not worth a finding."""
MAIN_SHARE = 0.4
"""From this share of the time of requests on, a cause is what limits them."""
FULL_LOOP = 0.85
BUSY_LOOP = 0.6
"""A loop that does more than this is near its limit: what fills it is worth a finding."""
STARVED = 0.5
STARVED_LATE_S = 0.015
SLOW_COMMIT_S = 0.25
STORE_WAITING_MIN = 0.1
"""Changes of metadata are few: one that waits a tenth of the time, and not a single slow one, is worth a finding."""
TINY_RECORDS = 5.0
TINY_BYTES = 2048
TINY_RATE = 500
COLD_READS_MIN = 10


def slow_disk(window: BrokerWindow, split: TimeSplit, *, is_waited_for: bool) -> Finding | None:
    """The disk of a broker; `is_waited_for` where leaders elsewhere wait for it as their follower."""
    # A flush goes to a worker and back, and waits for both: where there is no core for them, that is not the disk.
    flush_s, flushes = max(0.0, mean(window.flushes) - 2 * window.late_s), window.flushes.count
    waiting = window.share(split.disk)
    hangs = flushes == 0 and waiting >= WAITING_MIN
    if not hangs and (flush_s < SLOW_FLUSH_S or not flushes):
        return None
    if not (is_waited_for or (waiting >= WAITING_MIN and split.share("disk") >= MAIN_SHARE)):
        return None
    took = "none of its flushes ended" if hangs else f"a flush took {milliseconds(flush_s)} on average"
    evidence = [f"{took} ({flushes} in {window.seconds:.0f} s)"]
    if split.disk:
        evidence.append(
            f"waiting for it was {percent(split.share('disk'))} of the time of requests, {waiting:.1f} at any time"
        )
    if is_waited_for:
        evidence.append("leaders on other brokers wait for it as their follower")
    return Finding(
        "slow_disk",
        f"broker {window.node_id}",
        f"the disk of broker {window.node_id} is slow: writes wait for it to flush",
        tuple(evidence),
        "look for other work on that disk (`iostat -x 1`), give data.dir a local disk of its own with a fast "
        "fdatasync (`qanat doctor` measures it), or spread the load over more brokers",
        10 + waiting,
        broker=window.node_id,
    )


def full_loop(window: BrokerWindow) -> Finding | None:
    """The one core that a broker can use."""
    if window.loop_share < FULL_LOOP and not (window.demand >= FULL_LOOP and window.starved_share < STARVED):
        return None
    name, api = max(window.apis.items(), key=lambda one: one[1].loop_seconds, default=("nothing", None))
    evidence = [
        (
            f"its event loop used {percent(window.loop_share)} of a core, and events were "
            f"{milliseconds(window.late_s)} late on average"
        ),
    ]
    if api is not None and window.loop_seconds:
        evidence.append(
            f"{name} took {percent(api.loop_seconds / window.loop_seconds)} of what requests took of it: "
            f"{per_second(api.requests, window.seconds)} a second"
        )
    return Finding(
        "full_loop",
        f"broker {window.node_id}",
        f"the event loop of broker {window.node_id} is full: requests wait for their turn",
        tuple(evidence),
        "use more cores: `qanat start --workers N`, or more brokers, and `qanat cluster rebalance`; fewer and larger "
        "requests cost less (linger.ms, fetch.min.bytes)",
        8 + window.demand,
        broker=window.node_id,
    )


def busy_machine(window: BrokerWindow) -> Finding | None:
    """Other processes take the cores."""
    if window.starved_share < STARVED or window.late_s < STARVED_LATE_S:
        return None
    return Finding(
        "busy_machine",
        f"broker {window.node_id}",
        f"broker {window.node_id} gets no core: other processes use them",
        (
            (
                f"its event loop was ready and had no core {percent(window.starved_share)} of the time, and ran "
                f"{percent(window.loop_share)} of it"
            ),
            f"events were {milliseconds(window.late_s)} late on average",
        ),
        "move other processes off that machine, or give the broker's container more CPU",
        11 + window.starved_share,
        broker=window.node_id,
    )


def tiny_batches(window: BrokerWindow) -> Finding | None:
    """Many Produce requests with hardly anything in them, on a loop that they fill."""
    produce = window.produce
    if window.demand < BUSY_LOOP or produce.requests < TINY_RATE * window.seconds:
        return None
    records, size = window.written_records / produce.requests, produce.request_bytes / produce.requests
    if records > TINY_RECORDS or size > TINY_BYTES or produce.loop_seconds < window.loop_seconds / 2:
        return None
    return Finding(
        "tiny_batches",
        f"broker {window.node_id}",
        f"producers send tiny batches, and broker {window.node_id} spends its time on requests, not on records",
        (
            (
                f"{per_second(produce.requests, window.seconds)} {PRODUCE} requests a second with {records:.1f} "
                f"records and {data(size)} each"
            ),
            (
                f"they took {percent(produce.loop_seconds / window.loop_seconds)} of what requests took of its event "
                f"loop, which used {percent(window.loop_share)} of a core"
            ),
        ),
        "let producers collect records: linger.ms of 5 to 20 and batch.size of 64 KiB and more; do not flush after "
        "every record",
        9 + window.demand,
        broker=window.node_id,
    )


def throttled_clients(window: BrokerWindow, split: TimeSplit) -> Finding | None:
    """Clients that are not read because of `queued.max.request.bytes`."""
    paused = window.share(split.throttle)
    if paused < WAITING_MIN:
        return None
    clients = sorted(window.paused_clients.items(), key=lambda one: (-one[1], one[0]))[:3]
    names = ", ".join(f"{name or 'without a client id'} {percent(window.share(s))}" for name, s in clients)
    return Finding(
        "throttled_clients",
        f"broker {window.node_id}",
        f"broker {window.node_id} holds clients back: unanswered requests fill queued.max.request.bytes",
        (
            f"{paused:.1f} connections were not read, on average at any time",
            f"most of the time: {names}" if names else "none of them has named itself",
        ),
        "raise queued.max.request.bytes, or let those clients send less at once "
        "(max.in.flight.requests.per.connection, batch.size)",
        6 + paused,
        broker=window.node_id,
    )


def cold_reads(window: BrokerWindow, split: TimeSplit) -> Finding | None:
    """Consumers that read what is not in memory."""
    waiting = window.share(split.cold_read)
    if window.cold_reads < COLD_READS_MIN or waiting < WAITING_MIN or split.share("cold_read") < MAIN_SHARE:
        return None
    return Finding(
        "cold_reads",
        f"broker {window.node_id}",
        f"consumers of broker {window.node_id} read old records from disk, not from memory",
        (
            (
                f"{per_second(window.cold_reads, window.seconds)} cold reads a second, "
                f"{milliseconds(split.cold_read / window.cold_reads)} each"
            ),
            f"waiting for them was {percent(split.share('cold_read'))} of the time of requests",
        ),
        "let consumers keep up (`qanat group lag` shows who is behind), give the page cache more memory, or a disk "
        "that reads faster; a replay of history will pass",
        5 + waiting,
        broker=window.node_id,
    )


def slow_store(window: BrokerWindow, split: TimeSplit) -> Finding | None:
    """The metadata store."""
    commit_s, waiting = mean(window.commits), window.share(split.store)
    is_slow = commit_s >= SLOW_COMMIT_S and waiting >= STORE_WAITING_MIN
    if not is_slow and not (window.commits.count == 0 and waiting >= WAITING_MIN):
        return None
    took = (
        f"a change of metadata took {milliseconds(commit_s)} on average" if commit_s else "no change of metadata ended"
    )
    return Finding(
        "slow_store",
        f"broker {window.node_id}",
        f"the metadata store answers broker {window.node_id} slowly: topics, settings and elections wait for it",
        (
            f"{took} ({window.commits.count} in {window.seconds:.0f} s)",
            f"{waiting:.1f} changes were waiting for it at any time",
        ),
        "look at the store: its disk's fsync, its load, the network to it; etcd needs a disk of its own, SQLite a "
        "local one that nobody else locks",
        5.5 + waiting,
        broker=window.node_id,
    )
