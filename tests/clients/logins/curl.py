"""curl: every way to log in over HTTP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.clients.logins.login import MTLS, Login

WAYS = ("Basic", "Bearer", "API key", MTLS)
_SECONDS = 60


def options(way: str, login: Login) -> list[str]:
    """Options of curl."""
    trust = ["--cacert", login.authority]
    match way:
        case "Basic":
            return [*trust, "--user", f"{login.name}:{login.password}"]
        case "Bearer":
            return [*trust, "--oauth2-bearer", login.token]
        case "API key":
            return [*trust, "--header", f"X-API-Key: {login.api_key}"]
        case _:
            return [*trust, "--cert", login.chain, "--key", login.key]


class Answer(NamedTuple):
    """What curl printed; `status` is 0 where there was no answer, and `said` is why."""

    status: int
    body: Any
    said: str


def ask(given: Sequence[str], url: str, *more: str) -> Answer:
    command = ["curl", "-sS", "-m", str(_SECONDS), *given, "-w", "\n%{http_code}", *more, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return Answer(int(status), json.loads(body) if body else None, done.stderr)


def produce(given: Sequence[str], url: str, topic: str, value: str) -> Answer:
    body = json.dumps({"topic": topic, "value": value})
    return ask(given, f"{url}/produce", "--header", "Content-Type: application/json", "--data", body)


def consume(given: Sequence[str], url: str, topic: str) -> Answer:
    return ask(given, f"{url}/consume?topic={topic}&partition=0&offset=0&count=100")
