"""What a login guard counts as a failure."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from qanat.security.authentication import Accepted, Challenge, Principal, Refused, Step
from qanat.security.login_limits import LoginBudgets
from qanat.servers.login_guard import LoginGuard
from qanat.telemetry.broker_counters import BrokerCounters


class Client(NamedTuple):
    host: str = "192.0.2.1"
    peer: str = "192.0.2.1:50000"


def free_logins(*steps: Step) -> int:
    """How many logins fail with these steps before the next one has to wait."""
    guard = LoginGuard(LoginBudgets(5, 0, 60.0), BrokerCounters(), clock=lambda: 0.0)
    for count in range(20):
        if guard.wait_s(Client(), "alice"):
            return count
        for step in steps:
            guard.note(Client(), "alice", step)
    return 20


@pytest.mark.parametrize(
    "steps",
    [
        [Refused("wrong password")],
        [Challenge(b"nonce"), Refused("wrong proof")],
        [Challenge(b"{}", refusal="the token has expired")],
        [Challenge(b"{}", refusal="the token has expired"), Refused("")],
    ],
    ids=["refused", "challenged and refused", "refused by a challenge, gone", "refused by a challenge"],
)
def test_a_login_that_fails_counts_once(steps: list[Step]) -> None:
    assert free_logins(*steps) == 5


@pytest.mark.parametrize("step", [Challenge(b"nonce"), Accepted(Principal("alice"))])
def test_a_login_that_goes_on_or_succeeds_does_not_count(step: Step) -> None:
    assert free_logins(step) == 20
