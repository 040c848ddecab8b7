"""Handlers in the broker, with real processes: what they do, and that none of them harms the broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import RunningBroker, qanat, running_broker

GOOD = """
import os
from qanat.client import App, Send

app = App()

@app.stream("orders", group="billing", dead_letter="orders.dlq", retry="SKIP_ON_ERROR")
async def bill(order: dict[str, int]) -> Send:
    print("printed by a handler")
    if order["id"] == 13:
        raise ValueError("unlucky")
    return Send("invoices", value={"id": order["id"], "seen": os.environ.get("QANAT_SSL_KEY_PASSWORD", "nothing")})
"""


def wait_for(what: Callable[[], Any], timeout_s: float = 60) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it was not so within {timeout_s} s")


class Handlers:
    """A broker with handlers."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker

    def events(self, name: str, **fields: object) -> list[dict[str, Any]]:
        return [one for one in self.broker.events() if one["event"] == name and fields.items() <= one.items()]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.broker.started['http']}{path}", timeout=20) as answer:
            return str(answer.read().decode())

    def health(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/health")))

    def workers(self, app: str = "good:app", state: str = "running") -> list[dict[str, Any]]:
        return [one for one in self.health()["handlers"] if one["app"] == app and one["state"] == state]

    def wait_for_end(self, app: str, words: str) -> str:
        """The sentence about the end of a worker."""

        def found() -> list[str]:
            reasons = [str(one["reason"]) for one in self.events("handler worker ended", app=app)]
            return [one for one in reasons if words in one]

        return str(wait_for(found)[0])

    def was_restarted(self, app: str) -> bool:
        return len(self.events("handler worker started", app=app)) >= 2

    def create(self, *topics: str) -> None:
        for topic in topics:
            done = qanat("topic", "create", topic, "-p", "1", "--bootstrap", self.broker.address)
            assert done.returncode == 0, done.stderr

    def produce(self, topic: str, *values: object) -> None:
        """Produce over HTTP, and fail where that takes long: the broker has other work than handlers."""
        body = json.dumps({"records": [{"value": value} for value in values]}).encode()
        url = f"{self.broker.started['http']}/api/v1/topics/{topic}/records"
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200

    def consume(self, topic: str, n: int) -> list[Any]:
        done = qanat("consume", topic, "-n", str(n), "--bootstrap", self.broker.address)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def everything(self, topic: str) -> list[Any]:
        """The values of the topic's only partition: asked again and again, so without a process for each question."""
        answer = json.loads(self.get(f"/consume?topic={topic}&partition=0&offset=0&count=500"))
        return [one["value"] for one in answer["messages"]]

    def serves(self) -> None:
        """The broker takes and hands out records, and says that it is well."""
        self.produce("probe", {"n": 1})
        assert self.consume("probe", 1) == [{"n": 1}]
        # Partitions of a topic that was just created may count as degraded; bad handlers must not keep it so.
        wait_for(lambda: self.health()["status"] == "HEALTHY")


@contextmanager
def running(folder: Path, apps: str, *settings: str, modules: dict[str, str], **variables: str) -> Iterator[Handlers]:
    code = folder / "code"
    code.mkdir(exist_ok=True)
    for name, text in modules.items():
        (code / f"{name}.py").write_text(text)
    arguments = ["--port", "0", "--data-dir", str(folder / "data")]
    for one in (f"handlers.apps={apps}", f"handlers.directory={code}", "http.port=0", *settings):
        arguments += ["-X", one]
    with running_broker(folder, *arguments, environment={"QANAT_HTTP_PORT": "0", **variables}) as broker:
        yield Handlers(broker)
        if broker.process.poll() is None:
            assert broker.stop() == 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_handlers_run_beside_the_broker_and_are_seen_in_health_metrics_and_events(tmp_path: Path) -> None:
    with running(
        tmp_path, "good:app", "handlers.workers=2", modules={"good": GOOD}, QANAT_SSL_KEY_PASSWORD="x"
    ) as found:
        assert len(wait_for(lambda: len(found.workers()) == 2 and found.workers())) == 2
        found.create("orders", "invoices", "orders.dlq")
        found.produce("orders", *({"id": one} for one in (1, 13, 2)))
        assert found.consume("invoices", 2) == [{"id": 1, "seen": "nothing"}, {"id": 2, "seen": "nothing"}]
        assert found.consume("orders.dlq", 1) == [{"id": 13}]
        handled = 'qanat_handlers_records_handled_total{app="good:app",handler="bill",group="billing"} 2'
        wait_for(lambda: handled in found.get("/metrics"))
        metrics = found.get("/metrics")
        assert 'qanat_handlers_workers_running{app="good:app"} 2' in metrics
        assert 'qanat_handlers_dead_letters_total{app="good:app",handler="bill",group="billing"} 1' in metrics
        pids = [one["pid"] for one in found.workers()]
        assert {one["pid"] for one in found.events("handler worker started")} == set(pids)
        assert "printed by a handler" in found.broker.log.read_text()
        assert found.broker.stop() == 0
        assert not any(map(is_alive, pids))
        group = [one for one in found.broker.events() if one["event"] == "app stops"]
        assert len(group) == 2, "they left their group by themselves"


SHORT_SESSIONS = (
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=500",
)
"""A killed worker's partition goes to the next one when its session ends, after 45 s by default."""


@pytest.mark.long
@pytest.mark.data
def test_a_killed_worker_is_started_again_and_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "good:app", *SHORT_SESSIONS, modules={"good": GOOD}) as found:
        first = wait_for(found.workers)[0]["pid"]
        found.create("orders", "invoices", "orders.dlq")
        found.produce("orders", {"id": 1})
        found.consume("invoices", 1)
        os.kill(first, signal.SIGKILL)
        found.produce("orders", {"id": 2})
        assert found.wait_for_end("good:app", "") == "it was ended by SIGKILL"
        second = wait_for(lambda: [one for one in found.workers() if one["pid"] != first])[0]["pid"]
        assert is_alive(second)
        # What was unfinished when it was killed is handled again.
        wait_for(lambda: {one["id"] for one in found.everything("invoices")} == {1, 2})
        assert 'qanat_handlers_restarts_total{app="good:app"} 1' in found.get("/metrics")


def test_workers_end_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "good:app", "handlers.workers=2", modules={"good": GOOD}) as found:
        pids = [one["pid"] for one in wait_for(lambda: len(found.workers()) == 2 and found.workers())]
        found.broker.process.kill()
        found.broker.process.wait()
        wait_for(lambda: not any(map(is_alive, pids)), 10)


BAD = {
    "raises": ("raise RuntimeError('broken at import')", "RuntimeError: broken at import"),
    "absent": (None, "there is no module 'absent' in "),
    "syntax": ("def oops(:", "syntax cannot be imported: SyntaxError: "),
    "leaves": ("import sys; sys.exit(7)", "SystemExit: 7"),
    "exits": ("import os; os._exit(3)", "it exited with code 3"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "it was ended by SIGSEGV"),
    "empty": ("app = 5", "empty:app is int, not an App"),
    "loops": ("import os; os.nice(19)\nwhile True: pass", "it reported nothing for 8 s and was killed"),
    "sleeps": ("import time; time.sleep(1000)", "it reported nothing for 8 s and was killed"),
    "hogs": ("app = bytearray(1 << 33)", "MemoryError"),
    "babbles": (
        """import os, time
for fd in range(3, 20):
    try: os.write(fd, b'nonsense\\n')
    except OSError: pass
time.sleep(1000)""",
        "instead of a report, and was killed",
    ),
    "deaf": (
        "import os, time\nfor fd in range(3, 20):\n    try: os.close(fd)\n    except OSError: pass\ntime.sleep(1000)",
        "and was killed",
    ),
}


@pytest.mark.long
@pytest.mark.data
def test_no_bad_module_harms_the_broker_or_other_handlers(tmp_path: Path) -> None:
    modules = {name: text for name, (text, _) in BAD.items() if text is not None}
    apps = ",".join(["good:app", *(f"{name}:app" for name in BAD)])
    with running(tmp_path, apps, "handlers.stall.timeout.ms=8000", modules={**modules, "good": GOOD}) as found:
        found.serves()
        for name, (_, sentence) in BAD.items():
            reason = found.wait_for_end(f"{name}:app", sentence)
            assert "\n" not in reason
            assert found.health()["status"] == "HEALTHY"
        failing = {one["app"] for one in found.health()["handlers"] if one["state"] == "failing"}
        assert {"raises:app", "absent:app"} <= failing
        found.create("orders", "invoices", "orders.dlq")
        found.produce("orders", {"id": 1})
        assert found.consume("invoices", 1) == [{"id": 1, "seen": "nothing"}]
        found.serves()


HANDLERS = """
import os, signal, sys, time
from qanat.client import App

app = App(grace="60s")

@app.stream("orders", group="{name}", retry="PAUSE_ON_ERROR")
async def bill(order: dict[str, int]) -> None:
    {body}
"""


CAN_REFUSE = "import sys; from qanat.app.handlers.signal_scope import keep_signals_inside as ok; sys.exit(not ok())"
FATAL = {
    "loops": ("os.nice(19)\n    while True: pass", "it reported nothing for 8 s and was killed"),
    "exits": ("os._exit(9)", "it exited with code 9"),
    "leaves": ("sys.exit(4)", "SystemExit: 4"),
    "ends": ("os.kill(0, signal.SIGKILL)", "it was ended by SIGKILL"),
}


@pytest.mark.long
@pytest.mark.data
def test_handlers_that_take_their_process_along_are_started_again_and_the_broker_serves_on(tmp_path: Path) -> None:
    modules = {name: HANDLERS.format(name=name, body=body) for name, (body, _) in FATAL.items()}
    apps = ",".join(f"{name}:app" for name in FATAL)
    with running(tmp_path, apps, "handlers.stall.timeout.ms=8000", modules=modules) as found:
        for name in FATAL:
            wait_for(partial(found.workers, f"{name}:app"))
        found.create("orders")
        found.produce("orders", {"id": 1})
        for name, (_, sentence) in FATAL.items():
            found.wait_for_end(f"{name}:app", sentence)
            wait_for(partial(found.was_restarted, f"{name}:app"))
        found.serves()


@pytest.mark.long
@pytest.mark.data
def test_a_handler_that_wants_all_memory_gets_an_error_and_its_pause_is_seen(tmp_path: Path) -> None:
    module = HANDLERS.format(name="hog", body="bytearray(1 << 33)")
    with running(tmp_path, "hog:app", "handlers.memory.max.bytes=500000000", modules={"hog": module}) as found:
        wait_for(lambda: found.workers("hog:app"))
        found.create("orders")
        found.produce("orders", {"id": 1})
        event = wait_for(lambda: found.events("handlers make no progress"))[0]
        assert "handler bill of orders is paused at orders-0: offset 0: MemoryError" in event["reason"]
        (worker,) = wait_for(lambda: found.workers("hog:app", "failing"))
        assert "MemoryError" in worker["problem"]
        os.kill(worker["pid"], signal.SIGUSR1)
        wait_for(lambda: found.events("paused partitions go on"))
        found.serves()


@pytest.mark.long
@pytest.mark.data
def test_a_handler_that_kills_the_broker_is_refused(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", CAN_REFUSE], check=False).returncode:
        pytest.skip("this kernel has no scopes for signals")
    module = HANDLERS.format(name="foe", body="os.kill(os.getppid(), signal.SIGKILL)")
    with running(tmp_path, "foe:app", modules={"foe": module}) as found:
        wait_for(lambda: found.workers("foe:app"))
        found.create("orders")
        found.produce("orders", {"id": 1})
        event = wait_for(lambda: found.events("handlers make no progress"))[0]
        assert "PermissionError" in event["reason"]
        found.serves()
        (worker,) = found.workers("foe:app", "failing")
        found.broker.stop(signal.SIGKILL)
        wait_for(lambda: not is_alive(worker["pid"]))


def test_a_handler_that_does_not_stop_holds_the_broker_up_only_as_long_as_allowed(tmp_path: Path) -> None:
    module = HANDLERS.format(name="slow", body="print('begun', file=sys.stderr, flush=True); time.sleep(600)")
    settings = "handlers.shutdown.timeout.ms=1500"
    with running(tmp_path, "slow:app", settings, modules={"slow": module}) as found:
        (worker,) = wait_for(lambda: found.workers("slow:app"))
        found.create("orders")
        found.produce("orders", {"id": 1})
        wait_for(lambda: "begun" in found.broker.log.read_text())
        began = time.monotonic()
        assert found.broker.stop() == 0
        assert time.monotonic() - began < 60
        assert not is_alive(worker["pid"])
        assert found.events("handlers are killed: they outlast the broker's stop")


@pytest.mark.parametrize(
    ("apps", "sentence"),
    [
        (
            "billing",
            "handlers.apps has 'billing', which is neither module:variable nor an entry point of qanat.handlers",
        ),
        ("a b:app", "handlers.apps has 'a b:app': write module:variable, as in shop.handlers:app"),
        ("shop:", "handlers.apps has 'shop:': write module:variable, as in shop.handlers:app"),
        ("os:system('x')", "handlers.apps has \"os:system('x')\": write module:variable"),
        ("shop:app,shop:app", "handlers.apps has shop:app twice"),
    ],
)
def test_a_name_that_cannot_be_an_app_is_refused_before_the_broker_starts(
    tmp_path: Path, apps: str, sentence: str
) -> None:
    done = qanat("start", "--data-dir", str(tmp_path), "-X", f"handlers.apps={apps}")
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_installed_entry_point_names_an_app(tmp_path: Path) -> None:
    site = tmp_path / "site"
    package = site / "qanat_billing-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: qanat-billing\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[qanat.handlers]\nbilling = qanat_billing:app\n")
    (site / "qanat_billing.py").write_text(GOOD)
    with running(tmp_path, "billing", modules={}, PYTHONPATH=str(site)) as found:
        wait_for(partial(found.workers, "billing"))
    done = qanat("start", "--data-dir", str(tmp_path), "-X", "handlers.apps=biling", PYTHONPATH=str(site))
    assert "an entry point of qanat.handlers; did you mean billing?" in done.stderr


def test_no_client_can_set_handlers(tmp_path: Path) -> None:
    with running(tmp_path, "good:app", modules={"good": GOOD}) as found:
        done = qanat("config", "set", "broker", "0", "handlers.apps=evil:app", "--bootstrap", found.broker.address)
        assert done.returncode != 0
        assert "handlers.apps" in done.stderr
        assert [one["app"] for one in found.health()["handlers"]] == ["good:app"]
