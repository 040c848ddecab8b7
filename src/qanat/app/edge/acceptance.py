"""`qanat edge acceptance`: a registry, a broker and a consumer application, and five prices on their way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from qanat.app.child_processes import end_with_parent
from qanat.app.edge.feed_registry import PRICES, TOPIC
from qanat.model.errors import QanatError

APPLICATION = """\
broker:
  node:
    id: ${NODE_ID:local-001}
  storage:
    type: mmap
    data-dir: ${DATA_DIR:./data}
    segment-size: 1073741824  # 1GB
  network:
    type: tcp
    port: ${BROKER_PORT:9092}
    threads:
      boss: 2
      worker: 16
  registry:
    url: ${REGISTRY_URL:http://localhost:8080}
    poll-interval: 30000
  pipe:
    poll-interval: 1000
    batch-size: 100
"""
_GROUP = "price-group"
_WITHIN_S = 60.0
_STOP_S = 20.0
_OURS = ("QANAT_", "NODE_ID", "BROKER_", "DATA_DIR", "HTTP_PORT", "REGISTRY_URL", "CONSUMER_", "STORAGE_")
Found = TypeVar("Found")


class AcceptanceError(QanatError):
    """A step did not happen."""


def acceptance(*, data_dir: Path | None = None) -> int:
    """Run the edge's acceptance flow on free ports: five prices, from a test registry to a consumer application's REST.

        qanat edge acceptance

    Three processes: qanat edge test-registry, qanat start with an application.yml, qanat edge consumer. Exit codes: 0
    every step was seen, 1 one was not.

    Parameters
    ----------
    data_dir:
        Directory of all data; by default one that is deleted at the end.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        if data_dir is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qanat-acceptance-")))
        else:
            folder = data_dir
            folder.mkdir(parents=True, exist_ok=True)
        for step in Flow(folder, stack).steps():
            print(f"{time.monotonic() - began:5.1f} s  {step}", flush=True)
    return 0


class Flow:
    """The three processes and what is asked of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._kafka, self._http = _free_ports(2)
        self._broker = f"http://localhost:{self._http}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def steps(self) -> Any:
        """Each step, once it was seen; raises `AcceptanceError`."""
        registry = self._start("registry", ["edge", "test-registry", "--port", "0"], {})
        registry_url = _words_after(self._printed(registry, "test registry at "), "test registry at ").rstrip(",")
        yield f"registry: {registry_url}"
        yaml = self._folder / "application.yml"
        yaml.write_text(APPLICATION)
        self._start(
            "broker",
            ["start", "--config", str(yaml)],
            {
                "NODE_ID": "local-001",
                "REGISTRY_URL": registry_url,
                "BROKER_PORT": str(self._kafka),
                "DATA_DIR": str(self._folder / "data-local"),
                "HTTP_PORT": str(self._http),
            },
        )
        stored = self._wait("messages of the registry", self._stored, lambda one: len(one["messages"]) >= len(PRICES))
        yield f"cloud -> broker: {len(PRICES)} messages received ({', '.join(PRICES)})"
        _same("stored messages", [one["key"] for one in stored["messages"]], list(PRICES))
        _same("their offsets", [one["offset"] for one in stored["messages"]], list(range(len(PRICES))))
        yield f"broker -> storage: {len(PRICES)} messages stored, at offsets 0 to {len(PRICES) - 1}"
        before = self._committed()
        consumer = self._consumer()
        yield f"consumer: {consumer}"
        status = self._wait(
            "pushed messages", lambda: self._get(f"{consumer}/api/v1/status"), lambda one: one["records"] >= len(PRICES)
        )
        _same("pushed messages", status["records"], len(PRICES))
        yield f"broker -> consumer: {len(PRICES)} messages pushed"
        for symbol, price in PRICES.items():
            found = self._get(f"{consumer}/api/v1/latest/{symbol}?topic={TOPIC}")
            _same(f"the price of {symbol}", _json(found["value"]), {"symbol": symbol, "price": price})
        yield f"consumer: {len(PRICES)} prices queried by key"
        after = self._wait("the committed offset", self._committed, lambda one: one >= len(PRICES))
        _same("the committed offset", (before, after), (0, len(PRICES)))
        yield f"offset of {_GROUP}: {before} -> {after}"

    def _consumer(self) -> str:
        """Start the application; returns the address of its REST server."""
        process = self._start(
            "consumer",
            ["edge", "consumer"],
            {
                "CONSUMER_TYPE": "price",
                "CONSUMER_TOPIC": TOPIC,
                "CONSUMER_GROUP": _GROUP,
                "CONSUMER_PORT": "0",
                "BROKER_HOST": "localhost",
                "BROKER_PORT": str(self._kafka),
                "STORAGE_DATA_DIR": str(self._folder / "consumer-data"),
            },
        )
        return "http://" + _words_after(self._printed(process, "http://"), "http://")

    def _stored(self) -> Any:
        """What the topic has."""
        url = f"{self._broker}/consume?topic={TOPIC}&partition=0&offset=0&count=100"
        return self._get(url, missing={"messages": []}, waits=True)

    def _committed(self) -> int:
        """The group's offset; 0 where it has none."""
        found = self._get(f"{self._broker}/api/v1/groups/{_GROUP}/offsets", missing={"offsets": []})
        offsets: list[int] = [one["offset"] for one in found["offsets"] if one["topic"] == TOPIC]
        return max([0, *offsets])

    # Processes

    def _start(self, name: str, words: Sequence[str], variables: Mapping[str, str]) -> str:
        own = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
        with (self._folder / f"{name}.out").open("wb") as out, (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "qanat.app", *words],
                stdout=out,
                stderr=log,
                env=own | dict(variables),
                start_new_session=True,
                preexec_fn=end_with_parent(),
            )
        self._stack.callback(_stop, process)
        self._processes[name] = process
        return name

    def _printed(self, name: str, words: str) -> str:
        """The line of a process that has these words."""

        def line() -> str:
            if (code := self._processes[name].poll()) is not None:
                log = (self._folder / f"{name}.log").read_text()[-500:]
                raise AcceptanceError(f"the {name} ended with code {code}: {log.strip()}")
            lines = (self._folder / f"{name}.out").read_text().splitlines()
            return next((one for one in lines if words in one), "")

        return self._wait(f"{words.strip()!r} of the {name}", line, bool)

    def _wait(self, what: str, look: Callable[[], Found], is_there: Callable[[Found], object]) -> Found:
        deadline = time.monotonic() + _WITHIN_S
        while True:
            found = look()
            if is_there(found):
                return found
            if time.monotonic() > deadline:
                raise AcceptanceError(f"{what}: not within {_WITHIN_S:g} s, last seen {found!r}")
            time.sleep(0.05)

    def _get(self, url: str, missing: object = None, *, waits: bool = False) -> Any:
        """An answer; `missing` where there is nothing of that name, and with `waits` where nobody answers yet."""
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return msgspec.json.decode(answer.read())
        except urllib.error.HTTPError as fault:
            if fault.code == 404 and missing is not None:
                return missing
            raise AcceptanceError(f"GET {url} was answered with {fault.code}: {fault.read(300)!r}") from None
        except OSError as fault:
            if waits:
                return missing
            raise AcceptanceError(f"GET {url} was not answered: {fault}") from None


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise AcceptanceError(f"{what}: {found!r}, but {wanted!r} was expected")


def _json(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, str) else value


def _words_after(line: str, words: str) -> str:
    return line.partition(words)[2].split()[0]


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
