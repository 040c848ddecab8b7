"""The brokers of the tree, each a cluster of its own on its own machine of the network."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from verify.chaos.network import Network

KAFKA_PORT, HTTP_PORT = 9092, 8080
_START_S = 120.0


class EdgeBroker:
    """`qanat start` on one machine, with its data and its log in a folder."""

    def __init__(self, name: str, folder: Path, network: Network, registry: str) -> None:
        self.name = name
        self.host = network.address(name)
        self.address = f"{self.host}:{KAFKA_PORT}"
        self.url = f"http://{self.host}:{HTTP_PORT}"
        self.data = folder / name
        self.log = folder / f"{name}.log"
        settings = {
            "allow.unauthenticated.clients": "true",
            "http.host.name": self.host,
            "http.port": str(HTTP_PORT),
            **({"registry.url": registry} if registry else {}),
        }
        self._command = [
            *network.inside(name),
            *(sys.executable, "-m", "qanat.app", "start", "--host", self.host, "--port", str(KAFKA_PORT)),
            *("--node-id", name, "--data-dir", str(self.data)),
            *(word for key, value in settings.items() for word in ("-X", f"{key}={value}")),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it serves."""
        foreign = ("QANAT_", "NODE_ID", "BROKER_PORT", "DATA_DIR", "HTTP_PORT", "REGISTRY_URL")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException, ValueError):
                if self.call("GET", "/health")[0] == 200:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} does not start: see {self.log}")

    def kill(self) -> None:
        """Kill it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """The status and the JSON of an answer to a request from the host, which no cut separates from anyone."""
        connection = http.client.HTTPConnection(self.host, HTTP_PORT, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def need(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of an answer; any other than success is an error."""
        status, answer = self.call(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{self.name} answers {method} {path} with {status}: {answer}")
        return answer

    def bytes_of(self, topic: str) -> dict[str, bytes]:
        """What lies in the partitions of a topic."""
        return {
            folder.name: b"".join(one.read_bytes() for one in sorted(folder.glob("*.log")))
            for folder in sorted(self.data.glob(f"broker-*/{topic}-*"))
        }

    def tracebacks(self) -> int:
        return self.log.read_text(errors="replace").count("Traceback (most recent call last)")
