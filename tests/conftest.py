"""What every test may rely on."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.bytecode import compile_share
from tests.fetching import note_begin
from tests.sharing import Sharing, place_of

# How long one example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# `make test` draws fewer examples of each property than `make test-long` does; both draw the same ones every time.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=40)

# Modules and some thousand tests stay to the end: no look for garbage needs to go through them, now or later.
gc.disable()

# What runs in the background of a script ignores interrupts, and hands that on to every program that it starts; tests
# that interrupt a program want one that listens.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


note_begin()


def pytest_sessionstart(session: pytest.Session) -> None:
    compile_share(session.config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    config.option.loadscopereorder = False  # By the number of tests: a single one may take longest.
    return Sharing(config, log)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What a file leaves behind is looked through once: simulations and clients collect after every test."""
    yield
    _forget_log_handlers()
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _forget_log_handlers() -> None:
    """A command that ran in this process writes its log to the stderr of one test, which is closed by now."""
    for handler in [one for one in logging.root.handlers if type(one) is logging.StreamHandler]:
        logging.root.removeHandler(handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True
