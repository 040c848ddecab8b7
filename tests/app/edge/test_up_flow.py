"""Records of real brokers go up while children and parent are killed: each is at the parent once, in the order of its
partition."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.test_tree import CutLink, call, edge_broker, url_of, wait_until
from tests.app.processes import RunningBroker

TARGET = "all-sales"


class Tree:
    """A parent behind a link, and children that sell; every process may be killed and started again."""

    def __init__(self, folder: Path, children: int, opened: ExitStack) -> None:
        self.folder = folder
        self._opened = opened
        self._runs: dict[str, ExitStack] = {}
        self.brokers: dict[str, RunningBroker] = {}
        self.start("root-1")
        self.link = CutLink(self._place("root-1"))
        opened.callback(self.link.close)
        root = url_of(self.brokers["root-1"])
        assert call(root, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": self.link.url})[0] == 200
        assert call(root, "POST", "/api/v1/topics", {"name": TARGET, "partitions": 3})[0] == 201
        self.names = [f"pos-{number}" for number in range(children)]
        self.sold: dict[tuple[str, int], list[str]] = {}
        for name in self.names:
            place = {"role": "POS", "parents": ["root-1"], "topics": ["no-such"]}
            assert call(root, "PUT", f"/api/v1/edge/nodes/{name}", place)[0] == 200
            self.start(name)
            outbox = {"name": "sales", "partitions": 2, "configs": {"up.target": TARGET}}
            assert call(url_of(self.brokers[name]), "POST", "/api/v1/topics", outbox)[0] == 201
            for number in range(2):
                self.sold[name, number] = []

    def _place(self, name: str) -> tuple[str, int]:
        host, _, port = url_of(self.brokers[name]).removeprefix("http://").partition(":")
        return host, int(port)

    def start(self, name: str) -> None:
        run = self._opened.enter_context(ExitStack())
        registry = "" if name == "root-1" else self.link.url
        self.brokers[name] = run.enter_context(edge_broker(self.folder, name, registry))
        self._runs[name] = run

    def kill(self, name: str) -> None:
        self.brokers[name].process.kill()
        self._runs[name].close()

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)
        if name == "root-1":
            self.link.retarget(self._place(name))

    def sell(self, name: str, count: int) -> None:
        """Records that the child has acknowledged."""
        for _ in range(count):
            number = random.randrange(2)
            rows = self.sold[name, number]
            value = f"{name}/{number}/{len(rows)}"
            body = {"topic": "sales", "partition": number, "value": value}
            status, answer = call(url_of(self.brokers[name]), "POST", "/produce", body)
            assert status == 200, answer
            rows.append(value)

    def at_parent(self) -> list[str]:
        found: list[str] = []
        for number in range(3):
            offset = 0
            while True:
                path = f"/consume?topic={TARGET}&partition={number}&offset={offset}&isolation=read_committed"
                status, answer = call(url_of(self.brokers["root-1"]), "GET", path)
                assert status == 200, answer
                found += [one["value"] for one in answer["messages"]]
                if answer["next_offset"] == offset:
                    break
                offset = answer["next_offset"]
        return found

    def check(self) -> None:
        expected = sum(map(len, self.sold.values()))
        wait_until(lambda: len(self.at_parent()) >= expected, f"{expected} records at the parent")
        found = self.at_parent()
        for (name, number), rows in self.sold.items():
            arrived = [one for one in found if one.startswith(f"{name}/{number}/")]
            assert arrived == rows, f"{name}-{number}: {arrived[:5]}"
        assert len(found) == expected

    def state(self, name: str) -> Any:
        return call(url_of(self.brokers[name]), "GET", "/health")[1]["edge"]


@pytest.mark.long
@pytest.mark.data
def test_a_killed_child_a_killed_parent_and_a_cut_link_lose_and_double_nothing(tmp_path: Path) -> None:
    with ExitStack() as opened:
        tree = Tree(tmp_path, 1, opened)
        tree.sell("pos-0", 20)
        tree.restart("pos-0")
        tree.sell("pos-0", 20)
        tree.restart("root-1")
        tree.sell("pos-0", 20)
        tree.link.cut()
        tree.sell("pos-0", 20)
        tree.restart("pos-0")  # Offline: it starts with its kept topology.
        tree.sell("pos-0", 5)
        wait_until(lambda: tree.state("pos-0")["up_fault"] != "", "the cut is noticed")
        assert tree.state("pos-0")["up_lag_records"] >= 25
        tree.link.heal()
        tree.check()
        wait_until(lambda: tree.state("pos-0")["up_lag_records"] == 0, "nothing waits")
        assert {row["state"] for row in tree.state("pos-0")["outboxes"]} == {"IDLE"}
        tree.kill("root-1")
        tree.kill("pos-0")


@pytest.mark.long
@pytest.mark.parametrize(("edges", "seconds"), [(20, 60), (100, 240)])
def test_many_edges_send_into_one_topic_while_everything_is_killed(tmp_path: Path, edges: int, seconds: int) -> None:
    with ExitStack() as opened:
        tree = Tree(tmp_path, edges, opened)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name in random.sample(tree.names, 5):
                tree.sell(name, 10)
            tree.restart(random.choice([*random.sample(tree.names, 2), "root-1"]))
        tree.check()
