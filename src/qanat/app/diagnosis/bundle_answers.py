"""What a bundle asks a broker for, over HTTP, in the time that it has."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.diagnosis.bundle_file import StoredAnswer

TOPICS_MAX = GROUPS_MAX = 200
"""Of so many the details are in it: the largest, and those that are furthest behind."""
_PAGE = 1000
_UNQUOTED = "!'()*"
"""What browsers leave as it is in a part of a path."""
_ANSWER_S, _LEAST_S = 15.0, 1.0
NO_ANSWER = 504
"""The status under which a request without an answer is kept."""
_ALWAYS = (
    "/health",
    "/health/restartable",
    "/api/v1/whoami",
    "/api/v1/cluster",
    "/api/v1/cluster/traffic",
    "/api/v1/transactions",
    "/api/v1/pipelines",
    "/api/v1/clients",
    "/api/v1/configs/brokers/all",
)


class NoAnswerError(WrongArgumentError):
    """Nothing answers at an address, or not in time."""


class BrokerApi:
    """The HTTP API of one broker."""

    def __init__(self, address: str, certificates: ssl.SSLContext, authorization: str | None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise WrongArgumentError(f"{address} is no HTTP address of a broker: write http://broker:8080")
        self._parts = parts
        self._certificates = certificates
        self._headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})

    def get(self, path: str, within_s: float = _ANSWER_S) -> tuple[int, bytes]:
        """Status and body; an address where nothing answers gets one sentence."""
        host, port = self._parts.hostname or "", self._parts.port
        connection = (
            http.client.HTTPSConnection(host, port or 443, timeout=within_s, context=self._certificates)
            if self._parts.scheme == "https"
            else http.client.HTTPConnection(host, port or 80, timeout=within_s)
        )
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            raise NoAnswerError(f"{self._parts.geturl()} does not answer: {fault}") from None
        finally:
            connection.close()

    def answer(self, path: str, within_s: float = _ANSWER_S) -> StoredAnswer:
        status, body = self.get(path, within_s)
        if status == 401:
            raise WrongArgumentError(
                f"{self._parts.geturl()} asks for a sign-in: write `user:password` or an API key into a file and name "
                "it with --credentials"
            )
        try:
            return StoredAnswer(status, json.loads(body) if body else None)
        except ValueError:
            raise WrongArgumentError(f"{self._parts.geturl()}{path} answers with no JSON: is it a broker?") from None


def answer_or_fault(api: BrokerApi, path: str, deadline: float) -> StoredAnswer:
    """An answer, or why there is none: what a sick cluster does not answer is part of what it shows."""
    try:
        return api.answer(path, min(_ANSWER_S, max(_LEAST_S, deadline - time.monotonic())))
    except NoAnswerError as fault:
        return StoredAnswer(NO_ANSWER, {"title": "No answer", "status": NO_ANSWER, "detail": str(fault)})


def collect(api: BrokerApi, deadline: float) -> tuple[dict[str, StoredAnswer], int]:
    """Answers by their path, and how many details were left out because time ran out."""
    answers = {path: answer_or_fault(api, path, deadline) for path in _ALWAYS}
    topics = _listed(api, "/api/v1/topics?traffic=true&internal=true", "topics", deadline)
    groups = _listed(api, "/api/v1/groups?lag=true", "groups", deadline)
    answers["/api/v1/topics"] = StoredAnswer(200, {"topics": topics, "next_page_token": None, "total": len(topics)})
    answers["/api/v1/groups"] = StoredAnswer(200, {"groups": groups, "next_page_token": None, "total": len(groups)})
    left_out = 0
    for path in _details(answers, topics, groups):
        if time.monotonic() > deadline:
            left_out += 1
        else:
            answers[path] = answer_or_fault(api, path, deadline)
    return answers, left_out


def _listed(api: BrokerApi, path: str, name: str, deadline: float) -> list[Any]:
    """All rows of a listing."""
    rows: list[Any] = []
    while True:
        answer = answer_or_fault(api, f"{path}&limit={_PAGE}&offset={len(rows)}", deadline)
        page = answer.document[name] if answer.status == 200 else []
        rows += page
        if len(page) < _PAGE:
            return rows


def _details(answers: dict[str, StoredAnswer], topics: list[Any], groups: list[Any]) -> Iterator[str]:
    cluster = answers["/api/v1/cluster"]
    for broker in (cluster.document if cluster.status == 200 else {}).get("brokers", ()):
        yield f"/api/v1/brokers/{broker['node_id']}"
        yield f"/api/v1/configs/brokers/{broker['node_id']}"
    for group in sorted(groups, key=lambda one: -(one.get("time_lag_s") or 0))[:GROUPS_MAX]:
        name = quote(group["group"], safe=_UNQUOTED)
        is_queue = group.get("type") == "share"
        yield from (f"/api/v1/groups/{name}", f"/api/v1/groups/{name}/lag")
        if is_queue:
            yield f"/api/v1/queues/{name}"
    for topic in sorted(topics, key=lambda one: -((one.get("traffic") or {}).get("size_bytes") or 0))[:TOPICS_MAX]:
        name = quote(topic["name"], safe=_UNQUOTED)
        yield from (f"/api/v1/topics/{name}", f"/api/v1/topics/{name}/traffic", f"/api/v1/configs/topics/{name}")
