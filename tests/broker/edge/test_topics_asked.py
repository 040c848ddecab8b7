"""How often a child asks its parent for its topics: where they may have changed, and no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.edge.test_down_pipe import call, content, edge_node, root_with, url, wait_until, write

from qanat.broker.edge import down_pipe
from qanat.broker.edge.http_client import HttpClient
from qanat.model.ids import TopicPartition
from qanat.wire.pipe_answer import PipedTopics


def test_topics_are_asked_for_again_only_when_the_parent_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(down_pipe, "_TOPICS_S", 0.1)
    asked: list[None] = []
    topics_of = down_pipe.DownPipe._topics_of

    async def counted(self: down_pipe.DownPipe, client: HttpClient) -> PipedTopics:
        asked.append(None)
        return await topics_of(self, client)

    monkeypatch.setattr(down_pipe.DownPipe, "_topics_of", counted)

    async def run() -> None:
        async with root_with(tmp_path, 1) as root, edge_node(tmp_path, "pos-1", url(root)) as child:
            await wait_until(lambda: content(child) == content(root), "one record")
            assert child.broker.edge_node is not None
            pipe = child.broker.edge_node.pipe
            idle, questions = pipe.requests, len(asked)
            await wait_until(lambda: pipe.requests >= idle + 10, "ten requests that wait")
            assert len(asked) <= questions + 1
            await call(root, "POST", "/api/v1/topics", {"name": "more", "partitions": 1})
            more = TopicPartition("more", 0)
            await wait_until(lambda: more in child.broker.local_replicas.partitions, "the new topic")
            await write(root, 1, 2)
            await wait_until(lambda: content(child) == content(root), "two records")

    asyncio.run(run())
