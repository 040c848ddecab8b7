"""The login guard of a node: refuses logins of addresses that failed too often, on Kafka's wire and on HTTP.

The budgets are kept in `security.login_limits`; this adds the clock, a counter and a log event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Protocol

from qanat.security.authentication import Accepted, Refused, Step
from qanat.security.login_limits import LoginBudgets, LoginLimits
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import RateLimitedEvent


class LoginClient(Protocol):
    """A client that logs in, by its address."""

    @property
    def host(self) -> str: ...

    @property
    def peer(self) -> str: ...


class LoginGuard:
    """Limits the failed logins of clients; shared by the listeners of a node."""

    def __init__(
        self, budgets: LoginBudgets, counters: BrokerCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = LoginLimits(budgets)
        self._counters = counters
        self._clock = clock
        self._log_refused = RateLimitedEvent("login refused: too many failures")

    def wait_s(self, client: LoginClient, user: str, evaluating: int = 0) -> int:
        """Whole seconds that a login has to wait, counted and logged as a refusal; 0 where it may be evaluated."""
        now_s = self._clock()
        wait_s = self.limits.wait_s(client.host, user, now_s, evaluating)
        if wait_s <= 0:
            return 0
        self.limits.note_refused(client.host, now_s)
        self._counters.logins_refused += 1
        self._log_refused(peer=client.peer, user=user[:100], wait_s=ceil(wait_s))
        return ceil(wait_s)

    def shuts_out(self, host: str) -> bool:
        """Whether a new connection is closed unread, counted as a refused login."""
        if not self.limits.is_shut_out(host, self._clock()):
            return False
        self._counters.logins_refused += 1
        return True

    def refusal(self, client: LoginClient, user: str) -> Refused | None:
        """The refusal of a login that has to wait; None where it may be evaluated."""
        wait_s = self.wait_s(client, user)
        return Refused("too many failed logins", waiting_message(wait_s)) if wait_s else None

    def note(self, client: LoginClient, user: str, outcome: Step) -> None:
        """Note the outcome of a step; a challenge is one only where it refuses the client.

        The refusal after such a challenge has no reason, and counts no second time.
        """
        if isinstance(outcome, Accepted):
            self.note_succeeded(client, user)
        elif outcome.reason if isinstance(outcome, Refused) else outcome.refusal:
            self.note_failed(client, user)

    def note_failed(self, client: LoginClient, user: str) -> None:
        self.limits.note_failed(client.host, user, self._clock())

    def note_succeeded(self, client: LoginClient, user: str) -> None:
        self.limits.note_succeeded(client.host, user)


def waiting_message(wait_s: int) -> str:
    """What a client that has to wait is answered."""
    return f"Authentication failed: too many failed logins from this address, try again in {wait_s} s"
