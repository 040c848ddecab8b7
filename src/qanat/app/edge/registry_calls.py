"""Requests of `qanat edge` to a registry: any broker's HTTP address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from cyclopts import Parameter

from qanat.broker.edge.http_client import HttpClient
from qanat.connection.http_fetch import check_url
from qanat.model.errors import QanatError

_DEFAULT = "http://127.0.0.1:8080"


class RegistryError(QanatError):
    """The registry has refused a request, in its own words."""


@Parameter(name="*")
@dataclass(frozen=True)
class RegistryTarget:
    """Which registry."""

    registry: str = ""
    """Address of the registry: any broker's HTTP address (REGISTRY_URL; http://127.0.0.1:8080 without it)."""
    authorization: str = ""
    """The Authorization header, where the registry requires one (QANAT_EDGE_AUTHORIZATION)."""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer as JSON; raises with the registry's sentence where it refuses."""
        return asyncio.run(self._call(method, path, body))

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        url = self.registry or os.environ.get("REGISTRY_URL") or _DEFAULT
        check_url("--registry", url)
        authorization = self.authorization or os.environ.get("QANAT_EDGE_AUTHORIZATION", "")
        client = HttpClient(url, authorization=authorization)
        try:
            encoded = None if body is None else msgspec.json.encode(body)
            answer = await client.request(method, path, body=encoded, wait_s=20.0)
        finally:
            await client.close()
        try:
            found = msgspec.json.decode(answer.body)
        except msgspec.DecodeError:
            raise RegistryError(f"{url} answers with status {answer.status} and no JSON: is it a registry?") from None
        if answer.status >= 300:
            raise RegistryError(str(found.get("detail", f"status {answer.status}")))
        return found

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes of the tree."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self.call("GET", "/api/v1/edge/nodes?limit=1000" + (f"&page_token={token}" if token else ""))
            found += page["nodes"]
            token = page["next_page_token"] or ""
            if not token:
                return found


THERE = RegistryTarget()
"""The default of every command's `target`."""
