"""A client that is not Python: a program that takes one JSON object per line and answers with one.

What the program says besides goes to a file that is shown, shortened, when it fails.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from tests.clients.capabilities import Progress

SECONDS = 30
_SHOWN_CHARACTERS = 2_000


class RemoteMember:
    def __init__(self, remote: RemoteClient, name: str) -> None:
        self._remote = remote
        self._name = name

    def pump(self) -> Progress:
        answer = self._remote.ask("pump", member=self._name)
        return Progress(set(answer["assigned"]), answer["values"])

    def commit(self) -> None:
        self._remote.ask("commit", member=self._name)

    def leave(self) -> None:
        self._remote.ask("leave", member=self._name)


class RemoteTransactor:
    """A transactional producer that lives in the other process."""

    def __init__(self, client: RemoteClient, name: str) -> None:
        self._client = client
        self._name = name

    def begin(self) -> None:
        self._client.ask("begin", member=self._name)

    def send(self, topic: str, value: str) -> None:
        self._client.ask("send", member=self._name, topic=topic, value=value)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._client.ask("send_offset", member=self._name, group=group, topic=topic, offset=offset)

    def commit(self) -> None:
        self._client.ask("commit_transaction", member=self._name)

    def abort(self) -> None:
        self._client.ask("abort_transaction", member=self._name)

    def close(self) -> None:
        self._client.ask("close_transactor", member=self._name)


class RemoteClient:
    """The commands of `capabilities.Client`, asked of another process."""

    codecs: Sequence[str] = ()

    def __init__(self, command: Sequence[str], version: str) -> None:
        self.version = version
        self._members = 0
        self._noise = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - Closed in `close`.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._noise, text=True
        )

    def ask(self, act: str, **arguments: object) -> Any:
        """Wait for the answer; a program that takes too long is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps({"act": act, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        assert line, f"the client has ended or hung in {act!r}: {self._last_words()}"
        answer = json.loads(line)
        assert "error" not in answer, f"{act}: {str(answer['error'])[:_SHOWN_CHARACTERS]}"
        return answer.get("result")

    def _last_words(self) -> str:
        self._noise.seek(0)
        return self._noise.read()[-_SHOWN_CHARACTERS:]

    def create(self, topic: str, partitions: int) -> None:
        self.ask("create", topic=topic, partitions=partitions)

    def describe(self, topic: str) -> int:
        return int(self.ask("describe", topic=topic))

    def delete(self, topic: str) -> None:
        self.ask("delete", topic=topic)

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        self.ask("produce", topic=topic, values=list(values), codec=codec, acks=acks)

    def read(self, topic: str, offset: int, count: int) -> list[str]:
        found: list[str] = self.ask("read", topic=topic, offset=offset, count=count)
        return found

    def read_committed(self, topic: str, count: int) -> list[str]:
        found: list[str] = self.ask("read", topic=topic, offset=0, count=count, committed=True)
        return found

    def transactor(self, transactional_id: str, timeout_ms: int) -> RemoteTransactor:
        self._members += 1
        self.ask("init", member=str(self._members), transactional_id=transactional_id, timeout_ms=timeout_ms)
        return RemoteTransactor(self, str(self._members))

    def offset_at(self, topic: str, timestamp: int) -> int:
        return int(self.ask("offset_at", topic=topic, timestamp=timestamp))

    def join(self, group: str, topic: str, protocol: str = "classic") -> RemoteMember:
        self._members += 1
        self.ask("join", member=str(self._members), group=group, topic=topic, protocol=protocol)
        return RemoteMember(self, str(self._members))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._noise.close()
