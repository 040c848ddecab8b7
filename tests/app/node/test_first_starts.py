"""The first start of several brokers at once: one makes the cluster, and the others join it."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.adapters.memory_store import MemoryStore
from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.app.settings.node_settings import NodeSettings
from qanat.cluster import keys
from qanat.cluster.store import Entry
from qanat.model.errors import StorageError


def settings_of(node_id: int, folder: Path) -> NodeSettings:
    given = {"node.id": str(node_id), "data.dir": str(folder), "port": "0", "http.port": "-1"}
    return load([flag(name, value, name) for name, value in given.items()], None, {}).settings


class LateStore(MemoryStore):
    """A store whose answer to the first question for the cluster is out of date when it arrives."""

    def __init__(self, other: NodeSettings) -> None:
        super().__init__()
        self._other: NodeSettings | None = other

    async def get(self, key: str) -> Entry | None:
        answer = await super().get(key)
        if key == keys.CLUSTER and self._other is not None:
            other, self._other = self._other, None
            async with Node(other, store=self):
                pass
        return answer


async def test_a_broker_joins_a_cluster_that_another_makes_while_it_looks(tmp_path: Path) -> None:
    store = LateStore(settings_of(0, tmp_path))

    async with Node(settings_of(1, tmp_path), store=store) as node:
        assert node.cluster_id in (tmp_path / "broker-0" / "meta.properties").read_text()


async def test_data_without_a_cluster_are_refused(tmp_path: Path) -> None:
    async with Node(settings_of(0, tmp_path), store=MemoryStore()):
        pass

    with pytest.raises(StorageError, match="broker-0 holds data and"):
        async with Node(settings_of(1, tmp_path), store=MemoryStore()):
            pass
