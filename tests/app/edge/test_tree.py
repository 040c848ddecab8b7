"""A tree of three real brokers: registry and root, one below it over a link that is cut, one below that, killed."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import RunningBroker, qanat, running_broker

TIMEOUT_S = 90.0


class CutLink:
    """A forwarder of connections that can be cut: nothing passes, and new connections are refused."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._is_cut = False
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if self._is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(self._target)
                except OSError:  # Nobody is there now.
                    near.close()
                    continue
                with self._lock:
                    self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        source.close()
        sink.close()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def retarget(self, target: tuple[str, int]) -> None:
        """The broker behind the link was started again, on another port."""
        self._target = target

    def heal(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self._listening.close()
        self.cut()


def call(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError, KeyError, http.client.HTTPException):
            if holds():
                return
        time.sleep(0.1)
    raise AssertionError(f"not within {TIMEOUT_S} s: {what}")


def edge_broker(folder: Path, name: str, registry: str = "") -> Any:
    (folder / name).mkdir(exist_ok=True)
    environment = {"NODE_ID": name, "QANAT_HTTP_PORT": "0", "BROKER_PORT": "0"}
    if registry:
        environment["REGISTRY_URL"] = registry
    return running_broker(folder / name, "--data-dir", str(folder / name / "data"), environment=environment)


def url_of(broker: RunningBroker) -> str:
    return str(broker.started["http"])


def logs(folder: Path, name: str) -> dict[str, bytes]:
    """The bytes of a topic's partitions on a broker's disk."""
    found: dict[str, bytes] = {}
    for partition in sorted((folder / name / "data").glob("broker-*/prices-*")):
        found[partition.name] = b"".join(one.read_bytes() for one in sorted(partition.glob("*.log")))
    return found


@pytest.fixture
def root(tmp_path: Path) -> Iterator[RunningBroker]:
    with edge_broker(tmp_path, "root-1") as broker:
        status, _ = call(url_of(broker), "POST", "/api/v1/topics", {"name": "prices", "partitions": 2})
        assert status == 201
        yield broker


def write(root: RunningBroker, first: int, end: int) -> None:
    for number in range(first, end):
        body = {"topic": "prices", "key": f"k{number}", "value": {"number": number}}
        assert call(url_of(root), "POST", "/produce", body)[0] == 200


@pytest.mark.long
@pytest.mark.data
def test_a_tree_stays_byte_identical_when_a_link_is_cut_and_a_broker_is_killed(
    root: RunningBroker, tmp_path: Path
) -> None:
    registry = url_of(root)
    host, _, port = registry.removeprefix("http://").partition(":")
    link = CutLink((host, int(port)))
    try:
        _plant(registry, link.url)
        write(root, 0, 20)
        with edge_broker(tmp_path, "l2-1", link.url) as middle:
            middle_url = url_of(middle)
            leaf = edge_broker(tmp_path, "pos-1", registry)
            with leaf as below:
                wait_until(lambda: logs(tmp_path, "pos-1") == logs(tmp_path, "root-1"), "20 records at the leaf")

                link.cut()
                write(root, 20, 40)
                below.process.kill()
                below.process.wait()
                assert call(middle_url, "GET", "/health")[0] == 200  # A broker that is cut off serves what it has.
                wait_until(
                    lambda: call(middle_url, "GET", "/health")[1]["edge"]["last_fault"] != "", "the cut is noticed"
                )
                link.heal()
                wait_until(lambda: logs(tmp_path, "l2-1") == logs(tmp_path, "root-1"), "40 records in the middle")
            with edge_broker(tmp_path, "pos-1", registry) as again:
                wait_until(lambda: logs(tmp_path, "pos-1") == logs(tmp_path, "root-1"), "40 records at the leaf")
                _check_leaf(url_of(again))
    finally:
        link.close()


def _plant(registry: str, link: str) -> None:
    """Three levels, by the commands of an operator; the middle reaches the root over the link."""
    for arguments in (
        ("register", "root-1", "--role", "ROOT", "--url", link),
        ("register", "l2-1", "--role", "L2", "--parents", "root-1"),
        ("register", "pos-1", "--role", "POS", "--parents", "l2-1", "--topics", "price*"),
    ):
        done = qanat("edge", *arguments, "-o", "json", "--registry", registry)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["node"] == arguments[1]
    drawn = qanat("edge", "tree", REGISTRY_URL=registry)
    assert drawn.stdout.splitlines()[0].startswith("root-1  ROOT")
    assert drawn.stdout.splitlines()[2].startswith("   └─ pos-1  POS  topics price*  not registered yet")
    listed = json.loads(qanat("edge", "tree", "-o", "json", REGISTRY_URL=registry).stdout)
    assert [(one["node"], one["depth"]) for one in listed] == [("root-1", 0), ("l2-1", 1), ("pos-1", 2)]
    refused = qanat("edge", "move", "l2-1", "--parents", "pos-1", "--registry", registry)
    assert refused.returncode == 1
    assert "pos-1 is POS and cannot be a parent of l2-1" in refused.stderr


def _check_leaf(url: str) -> None:
    status, answer = call(url, "POST", "/produce", {"topic": "prices", "value": 1})
    assert (status, answer["error"]) == (422, "POLICY_VIOLATION")  # A mirror is read-only.
    edge = call(url, "GET", "/health")[1]["edge"]
    assert (edge["node"], edge["role"], edge["parent"], edge["pipe"]) == ("pos-1", "POS", "l2-1", "HEALTHY")
    assert (edge["gaps"], edge["stopped"], edge["not_mirrored"]) == ([], [], {})
    status, changed = call(url, "PATCH", "/api/v1/topics/prices", {"configs": {"mirror.source": "another"}})
    assert status >= 400
    assert "cannot be changed" in changed["detail"]


def test_a_second_machine_with_the_same_name_and_a_forged_role_are_refused(root: RunningBroker) -> None:
    url = url_of(root)
    said = {"node": "pos-9", "instance": "first"}
    assert call(url, "POST", "/api/v1/edge/nodes", said)[0] == 202
    assert call(url, "PUT", "/api/v1/edge/nodes/pos-9", {"role": "POS"})[0] == 200

    status, refused = call(url, "POST", "/api/v1/edge/nodes", {**said, "instance": "second"})
    assert (status, "registered by another instance" in refused["detail"]) == (409, True)
    status, refused = call(url, "POST", "/api/v1/edge/nodes", {**said, "role": "ROOT"})
    assert (status, "claims role ROOT" in refused["detail"]) == (409, True)

    assert qanat("edge", "retire", "pos-9", "--registry", url).returncode == 0
    assert call(url, "GET", "/api/v1/edge/topology/pos-9")[0] == 404
    listed = qanat("edge", "list", "-o", "json", "--registry", url)
    assert "pos-9" not in listed.stdout
