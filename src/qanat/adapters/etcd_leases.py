"""The thread that renews leases in etcd: with its own event loop and connections, so that no other work delays it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_connection import EtcdConnection
from qanat.adapters.etcd_errors import EtcdFault
from qanat.adapters.kept_lease import ThreadKeptLease
from qanat.model.errors import StoreUnavailableError

RETRY_S = 0.1


class LeaseThread:
    """Started with `start`; ends after `stop`."""

    def __init__(self, access: EtcdAccess) -> None:
        self._access = access
        self._opened: Future[asyncio.AbstractEventLoop] = Future()
        self._ended: Future[None] = Future()
        for future in (self._opened, self._ended):
            future.set_running_or_notify_cancel()
        self._stopping = asyncio.Event()
        self._connection: EtcdConnection
        self._renewals: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="qanat-etcd-leases", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        await asyncio.wrap_future(self._opened)

    async def stop(self) -> None:
        if self._thread.ident is None or self._opened.exception() is not None:
            return
        if not self._ended.done():
            self._opened.result().call_soon_threadsafe(self._stopping.set)
        await asyncio.shield(asyncio.wrap_future(self._ended))
        self._thread.join()

    def keep(self, kept: ThreadKeptLease) -> None:
        """Renew a lease from now on, until it is released."""
        self._opened.result().call_soon_threadsafe(self._begin, kept)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001 - it belongs to the task that starts the thread
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            self._ended.set_result(None)

    async def _work(self) -> None:
        self._connection = EtcdConnection(self._access)
        self._opened.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)
        await self._connection.close()

    def _begin(self, kept: ThreadKeptLease) -> None:
        renewal = asyncio.create_task(self._renew_for_ever(kept))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)

    async def _renew_for_ever(self, kept: ThreadKeptLease) -> None:
        interval_s = kept.interval_ms / 1000
        while kept.is_wanted and (sent_ms := kept.begin()) is not None:
            try:
                is_alive = await self._connection.keep_alive(kept.lease.lease_id, timeout_s=interval_s)
            except (EtcdFault, StoreUnavailableError):
                await asyncio.sleep(RETRY_S)
                continue
            if not is_alive:
                kept.end()
                return
            kept.confirm(sent_ms)
            await asyncio.sleep(interval_s)
