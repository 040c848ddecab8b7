"""An unhandled exception is a problem of a simulated run, as long as its machine lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import pytest
from tests.sim.stage import AT, Stage, play
from verify.clusters.machine import Machine
from verify.clusters.run import ClusterRun

from qanat.broker.broker import Broker
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.partition import EndMarker
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.cluster.topics import CreateTopic
from qanat.model.errors import QanatError
from qanat.testing.simulation.loop import OWNER

_LOGGER = logging.getLogger("qanat")


def _fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError("planted")


async def _fail_at_once(*_: object) -> None:
    _fail()


def _of(machine: Machine) -> Broker:
    assert machine.node is not None
    return machine.node.broker


def _found(stage: Stage) -> str:
    """The one problem of a run."""
    (problem,) = stage.run().problems
    assert problem.startswith("unhandled exception on machine-")
    return problem


async def _fail_in_a_callback(stage: Stage, machine: Machine) -> None:
    in_context = _context_of(machine)
    stage.loop.call_later(0.1, _fail, context=in_context)
    await asyncio.sleep(1.0)


async def _fail_in_a_task(stage: Stage, machine: Machine) -> None:
    stage.loop.create_task(_fail_at_once(), context=_context_of(machine))
    await asyncio.sleep(1.0)


async def _fail_in_a_task_that_is_kept(stage: Stage, machine: Machine) -> None:
    machine.kept = stage.loop.create_task(_fail_at_once(), context=_context_of(machine))  # type: ignore[attr-defined]
    await asyncio.sleep(1.0)


async def _fail_before_a_kill(stage: Stage, machine: Machine) -> None:
    await _fail_in_a_task_that_is_kept(stage, machine)
    machine.kill()
    await asyncio.sleep(1.0)


async def _fail_in_the_log(stage: Stage, machine: Machine) -> None:
    def logged() -> None:
        try:
            _fail()
        except ZeroDivisionError as bug:
            _LOGGER.error("a bug that was only written down", exc_info=bug)

    stage.loop.call_soon(logged, context=_context_of(machine))
    await asyncio.sleep(1.0)


def _context_of(machine: Machine) -> Context:
    """A context in which callbacks are the machine's."""
    context = copy_context()
    context.run(OWNER.set, machine.owner)
    return context


@pytest.mark.parametrize(
    "fail",
    [
        _fail_in_a_callback,
        _fail_in_a_task,
        _fail_in_a_task_that_is_kept,
        _fail_before_a_kill,
        _fail_in_the_log,
    ],
)
def test_an_exception_of_a_living_machine_is_found_with_its_traceback(
    fail: Callable[[Stage, Machine], Coroutine[Any, Any, None]],
) -> None:
    problem = _found(Stage(lambda stage: fail(stage, stage.machines[1])))

    assert "machine-1" in problem
    assert "planted" in problem
    assert "in _fail" in problem, "with the traceback"


def test_an_exception_of_a_machine_that_was_killed_is_none() -> None:
    async def script(stage: Stage) -> None:
        machine = stage.machines[1]
        context = _context_of(machine)
        machine.kill()
        stage.loop.call_soon(_fail, context=context)
        stage.loop.create_task(_fail_at_once(), context=context)
        await asyncio.sleep(1.0)

    play(script)


@pytest.mark.parametrize(
    ("part", "name", "bug"),
    [
        (ImageWatcher, "_reconcile_for_ever", _fail_at_once),
        (IsrChanges, "_review", _fail),
        (PartitionLookup, "writable", _fail),
    ],
)
def test_a_seed_in_which_the_product_raises_fails(
    monkeypatch: pytest.MonkeyPatch, part: type, name: str, bug: object
) -> None:
    monkeypatch.setattr(part, name, bug)

    assert any("unhandled exception" in problem for problem in ClusterRun(1, stops_early=True).run().problems)


def test_a_marker_whose_disk_fails_leaves_no_exception_behind() -> None:
    """A leader with followers waits for what is committed, and not for its own disk besides."""

    async def script(stage: Stage) -> None:
        assert await stage.send(b"before") == 0
        leader = stage.leader
        partition = _of(leader).partitions[AT]
        leader.disk.fail_next("sync")
        marker = EndMarker(producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True, transaction_version=2)
        begun = _context_of(leader).run(partition.append_marker, marker)
        assert begun is not None
        with pytest.raises(QanatError):
            await begun
        del begun
        await asyncio.sleep(1.0)

    play(script)


def test_a_change_whose_client_has_gone_leaves_no_exception_behind() -> None:
    async def script(stage: Stage) -> None:
        machine = stage.machines[1]
        broker = _of(machine)
        machine.store.is_cut = True
        wish = CreateTopic("asked-for", broker.metadata_changes.new_topic_id(), partitions=1)
        asking = stage.loop.create_task(broker.metadata_changes.create_topic(wish), context=_context_of(machine))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.sleep(3.0)
        assert asking.cancelled()

    play(script)
