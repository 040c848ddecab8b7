"""`qanat.testing.run`: handlers on a virtual clock, with kills, rebalances, slow brokers and replay by seed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import qanat.testing
from qanat.client import App, AsyncConsumer, Context, HandlerFailedError, IoLoop, Record, Retry, Send
from qanat.testing import AppRun


class Order(msgspec.Struct):
    id: int
    customer: str


def billing(seen: list[Any], **options: Any) -> App:
    app = App("production:9092", security_protocol="SASL_SSL")

    @app.stream("orders", group="billing", concurrency=4, **options)
    async def bill(order: Order, ctx: Context) -> Send:
        await asyncio.sleep(5)
        seen.append((order.customer, order.id, ctx.attempt))
        return Send("invoices", order, key=order.customer)

    return app


def history(seed: int) -> tuple[list[Any], list[bytes | None], float]:
    """One run with kills, a rebalance and a slow broker."""
    seen: list[Any] = []
    app = billing(seen, exactly_once=True)
    with qanat.testing.run(app, seed=seed, workers=2, topics={"invoices": 1}) as t:
        for i in range(30):
            t.send("orders", Order(i, f"c{i % 5}"), key=f"c{i % 5}")
        t.advance("7s")
        t.kill_worker()
        t.advance("20s")
        t.slow_broker("50ms")
        t.rebalance()
        t.heal()
        t.reset_connections(0.5)
        t.advance("2m")
        t.settle()
        assert t.health()
        invoices = [one.value for one in t._do(lambda: committed_records(t, "invoices"))]
        return seen, invoices, t.now_s


async def committed_records(t: AppRun, topic: str) -> list[Record[Any, Any]]:
    """The records that readers of committed ones see."""
    settings: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    found: list[Record[Any, Any]] = []
    async with AsyncConsumer(t.brokers.addresses, topic, io=IoLoop.here(), **settings) as consumer:
        while some := await consumer.poll(timeout_s=60):
            found += some
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_with_exactly_once_nothing_is_lost_or_doubled_whatever_the_seed(seed: int) -> None:
    _, invoices, _ = history(seed)
    ids = sorted(msgspec.json.decode(one or b"", type=Order).id for one in invoices)
    assert ids == list(range(30))


def test_minutes_pass_in_no_time_and_every_record_is_handled() -> None:
    seen, invoices, now_s = history(7)
    assert now_s > 120
    handled = {one[:2] for one in seen}
    assert handled == {(f"c{i % 5}", i) for i in range(30)}
    assert len(invoices) == 30


@pytest.mark.long
@pytest.mark.data
def test_one_seed_is_one_history() -> None:
    assert history(3) == history(3)


def test_order_per_key_is_kept_at_the_first_delivery_of_each_record() -> None:
    seen, _, _ = history(5)
    for customer in {one[0] for one in seen}:
        firsts = list(dict.fromkeys(one[1] for one in seen if one[0] == customer))
        assert firsts == sorted(firsts)


def test_a_retry_of_minutes_is_tested_in_milliseconds() -> None:
    app, tries = App("production:9092"), []

    @app.stream("orders", retry=Retry(3, backoff="5m..10m"), dead_letter="orders.dlq")
    async def bill(order: Order, ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise OSError("no money")

    with qanat.testing.run(app) as t:
        t.send("orders", Order(1, "x"), key="x")
        t.advance("1m")
        assert tries == [1]
        t.advance("5m")
        assert tries == [1, 2]
        t.advance("10m")
        assert tries == [1, 2, 3]
        t.advance("1s")
        (letter,) = t.records("orders.dlq")
        assert dict(letter.headers)["__dlq.errors.message"] == b"OSError: no money"


def test_a_handler_that_gives_up_fails_the_test_with_the_seed() -> None:
    app = App("production:9092")

    @app.stream("orders", retry=Retry(1))
    async def bill(order: Order) -> None:
        raise OSError("no money")

    def scenario() -> None:
        with qanat.testing.run(app, seed=9) as t:
            t.send("orders", Order(1, "x"))
            t.advance("1m")

    with pytest.raises(HandlerFailedError, match="no money") as caught:
        scenario()
    assert caught.value.__notes__ == ["replay it with qanat.testing.run(app, seed=9)"]


def test_it_works_where_another_event_loop_runs_as_in_a_notebook() -> None:
    async def cell() -> int:
        app, seen = App("production:9092"), []

        @app.stream("orders")
        def bill(order: Order) -> None:
            seen.append(order.id)

        with qanat.testing.run(app) as t:
            t.send("orders", Order(1, "x"))
            t.settle()
        return len(seen)

    assert asyncio.run(cell()) == 1


def test_a_restart_of_the_broker_is_survived() -> None:
    seen: list[Any] = []
    with qanat.testing.run(billing(seen), topics={"invoices": 1}) as t:
        t.send("orders", Order(1, "x"))
        t.advance("10s")
        t.restart_broker("5s")
        t.send("orders", Order(2, "x"))
        t.advance("1m")
        assert {one[1] for one in seen} == {1, 2}
        with pytest.raises(LookupError, match="there is no topic 'nothing'"):
            t.records("nothing")


def test_a_broker_that_is_away_turns_health_red_with_a_reason_and_green_when_it_is_back() -> None:
    with qanat.testing.run(billing([]), topics={"invoices": 1}) as t:
        t.send("orders", Order(1, "x"))
        t.advance("10s")
        assert t.health()
        t.stop_broker()
        t.advance("12s")
        assert not t.health()
        assert "handler bill of orders makes no progress for" in t.health().reason
        t.start_broker()
        t.advance("10s")
        assert t.health()


def with_leaders_killed(seed: int) -> tuple[list[Any], list[bytes | None], float]:
    """One run on three brokers: leaders and workers are killed, and come back."""
    seen: list[Any] = []
    app = billing(seen, exactly_once=True)
    with qanat.testing.run(app, seed=seed, workers=2, brokers=3, topics={"invoices": 2}) as t:
        for i in range(20):
            t.send("orders", Order(i, f"c{i % 5}"), key=f"c{i % 5}")
        t.advance("2s")
        first = t.kill_leader("orders", 1)
        for i in range(20, 30):
            t.send("orders", Order(i, f"c{i % 5}"), key=f"c{i % 5}")
        assert t.brokers.leader("orders", 1) not in (None, first)
        t.kill_worker()
        t.advance("20s")
        t.start_broker()
        t.advance("20s")
        t.kill_leader("invoices")
        t.advance("5s")
        t.start_broker()
        t.kill_broker()
        t.settle()
        assert t.health()
        assert len(t.records("orders")) == 30
        invoices = [one.value for one in t._do(lambda: committed_records(t, "invoices"))]
        return seen, invoices, t.now_s


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_a_leader_that_is_killed_costs_no_record_no_order_and_doubles_none(seed: int) -> None:
    seen, invoices, _ = with_leaders_killed(seed)
    orders = [msgspec.json.decode(one or b"", type=Order) for one in invoices]
    assert sorted(one.id for one in orders) == list(range(30))
    for customer in {one.customer for one in orders}:
        ids = [one.id for one in orders if one.customer == customer]
        assert ids == sorted(ids)
        firsts = list(dict.fromkeys(one[1] for one in seen if one[0] == customer))
        assert firsts == sorted(firsts)


@pytest.mark.long
@pytest.mark.data
def test_one_seed_is_one_history_with_several_brokers() -> None:
    assert with_leaders_killed(11) == with_leaders_killed(11)


def test_a_lone_broker_that_is_killed_comes_back_with_everything_that_was_acknowledged() -> None:
    seen: list[Any] = []
    with qanat.testing.run(billing(seen), topics={"invoices": 1}) as t:
        for i in range(5):
            t.send("orders", Order(i, "x"), key="x")
        t.kill_broker()
        t.advance("30s")
        with pytest.raises(LookupError, match="no broker runs"):
            t.records("orders")
        t.start_broker()
        t.settle()
        assert len(t.records("orders")) == 5
    assert {one[1] for one in seen} == set(range(5))


def test_what_does_not_exist_is_named() -> None:
    app = billing([])
    with pytest.raises(ValueError, match="brokers=0: give a number from 1 to 9"):
        qanat.testing.run(app, brokers=0)
    with qanat.testing.run(app) as t:
        with pytest.raises(LookupError, match="there is no topic 'order'; topics are"):
            t.kill_leader("order")
        with pytest.raises(LookupError, match="topic 'orders' has partitions 0 to 3, not 4"):
            t.kill_leader("orders", 4)
