"""Tokens checked with the keys of a JWKS endpoint: the shell around `bearer_tokens` and `key_refresh`.

Keys are fetched by one thread of its own. Nearly every token is checked at once, on the event loop; one with an unknown
key waits for the fetch that it asks for, and so does every one before the first keys are there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from qanat.connection.http_fetch import TIMEOUT_S, FetchFailedError, check_url, fetch
from qanat.security.bearer_tokens import TokenRules, UnknownKey, UnusableKeysError, check_token, read_keys
from qanat.security.key_refresh import KeyRefresh
from qanat.security.oauthbearer import InvalidToken, TokenVerdict
from qanat.security.settings import SecuritySettings
from qanat.telemetry.events import RateLimitedEvent, log_event

URL = "sasl.oauthbearer.jwks.endpoint.url"
_LOOK_S = 0.05
"""Shortest pause between two looks at the clock."""


class JwksTokens:
    """Checks tokens; `start` keeps the keys fresh until `close`."""

    def __init__(self, settings: SecuritySettings, timeout_s: float = TIMEOUT_S) -> None:
        url = settings.sasl_oauthbearer_jwks_endpoint_url
        assert url is not None, "the built-in mechanism has it"
        self.url = url
        parts = check_url(URL, url)
        self.is_open_to_change = parts.scheme == "http" and not _is_loopback(parts.hostname or "")
        """Whether the keys come over a network without protection."""
        self._fetch = partial(fetch, parts, timeout_s=timeout_s)
        self._rules = rules_of(settings)
        self._refresh = KeyRefresh(
            settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000,
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000,
            settings.sasl_oauthbearer_jwks_endpoint_stale_max_ms / 1000,
        )
        self._worker = ThreadPoolExecutor(1, "jwks")
        self._fetching: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._known: list[str] = []
        self._log_failed = RateLimitedEvent("keys of the identity provider cannot be fetched", pause_s=60.0)

    def start(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        for task in (self._running, self._fetching):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._worker.shutdown(wait=False, cancel_futures=True)

    def check(self, token: bytes) -> TokenVerdict | Coroutine[Any, Any, TokenVerdict]:
        now_s = time.monotonic()
        keys = self._refresh.keys_at(now_s)
        if keys is None:
            if self._fetching is None and now_s < self._refresh.due_s:
                return self._without_keys()
            return self._check_after_fetch(token)
        verdict = check_token(token, keys, self._rules, time.time())
        if not isinstance(verdict, UnknownKey):
            return verdict
        if self._fetching is None and not self._refresh.may_ask(verdict.key_id, now_s):
            return _unknown(verdict)
        return self._check_after_fetch(token)

    async def _check_after_fetch(self, token: bytes) -> TokenVerdict:
        await self._join_fetch()
        keys = self._refresh.keys_at(time.monotonic())
        if keys is None:
            return self._without_keys()
        verdict = check_token(token, keys, self._rules, time.time())
        return _unknown(verdict) if isinstance(verdict, UnknownKey) else verdict

    def _without_keys(self) -> InvalidToken:
        return InvalidToken(f"there are no keys of the identity provider: {self._refresh.fault}")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(max(_LOOK_S, self._refresh.due_s - time.monotonic()))
            if time.monotonic() >= self._refresh.due_s:
                await self._join_fetch()

    async def _join_fetch(self) -> None:
        """Wait for the fetch that runs, or for a new one."""
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_keys())
        await asyncio.shield(self._fetching)

    async def _fetch_keys(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            keys = await loop.run_in_executor(self._worker, self._read)
        except (FetchFailedError, UnusableKeysError) as fault:
            self._refresh.failed(str(fault), time.monotonic())
            self._log_failed(url=self.url, reason=str(fault), setting=URL)
        else:
            self._refresh.fetched(keys, time.monotonic())
            if keys.ids != self._known:
                self._known = keys.ids
                log_event("keys of the identity provider are in use", url=self.url, keys=",".join(keys.ids))
        finally:
            self._fetching = None

    def _read(self) -> Any:
        return read_keys(self._fetch())


def rules_of(settings: SecuritySettings) -> TokenRules:
    return TokenRules(
        settings.oauth_audiences,
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_scope_claim_name,
    )


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _unknown(verdict: UnknownKey) -> InvalidToken:
    return InvalidToken(f"the token's key {verdict.key_id[:100]!r} is not known")
