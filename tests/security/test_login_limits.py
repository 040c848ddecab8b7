"""The budgets of failed logins: what one address may guess, and that others are not concerned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.security import plain, scram
from qanat.security.login_limits import FORGET_S, REFUSALS_PER_S, LoginBudgets, LoginLimits

HOST, OTHER = "10.0.0.1", "10.0.0.2"
ONLY_PER_USER = LoginBudgets(failures_per_user=3, failures_per_address_per_s=0, longest_wait_s=10)
ONLY_PER_ADDRESS = LoginBudgets(failures_per_user=0, failures_per_address_per_s=5)


def failed(limits: LoginLimits, times: int, user: str = "alice", host: str = HOST, now_s: float = 0.0) -> None:
    for _ in range(times):
        limits.note_failed(host, user, now_s)


def test_the_wait_doubles_with_every_failure_beyond_the_free_ones_up_to_the_longest() -> None:
    limits, waits = LoginLimits(ONLY_PER_USER), []
    for _ in range(8):
        limits.note_failed(HOST, "alice", 0.0)
        waits.append(limits.wait_s(HOST, "alice", 0.0))

    assert waits == [0, 0, 1, 2, 4, 8, 10, 10]
    assert limits.wait_s(HOST, "alice", 4.0) == 6
    assert limits.wait_s(HOST, "alice", 10.0) == 0


def test_a_user_is_not_locked_out_at_other_addresses_nor_another_user_at_this_one() -> None:
    limits = LoginLimits(ONLY_PER_USER)
    failed(limits, 100)

    assert limits.wait_s(HOST, "alice", 0.0) > 0
    assert limits.wait_s(OTHER, "alice", 0.0) == 0
    assert limits.wait_s(HOST, "bob", 0.0) == 0


def test_a_login_that_succeeds_ends_the_back_off() -> None:
    limits = LoginLimits(ONLY_PER_USER)
    failed(limits, 2)
    limits.note_succeeded(HOST, "alice")
    failed(limits, 2)

    assert limits.wait_s(HOST, "alice", 0.0) == 0


def test_failures_are_forgotten_after_a_pause() -> None:
    limits = LoginLimits(ONLY_PER_USER)
    failed(limits, 6)
    failed(limits, 1, now_s=FORGET_S + 1)

    assert limits.wait_s(HOST, "alice", FORGET_S + 1) == 0


def test_a_thousand_guesses_a_second_over_many_names_are_evaluated_ten_times_in_the_first_and_then_five_times() -> None:
    limits, evaluated = LoginLimits(), [0, 0, 0]
    for number in range(3_000):
        now_s = number / 1000
        if limits.wait_s(HOST, f"user-{number}", now_s) == 0:
            evaluated[int(now_s)] += 1
            limits.note_failed(HOST, f"user-{number}", now_s)

    assert evaluated[0] <= 10
    assert evaluated[1] <= 6
    assert evaluated[2] <= 6
    assert limits.wait_s(OTHER, "alice", 3.0) == 0


def test_logins_that_are_evaluated_now_count_as_failures_of_their_address() -> None:
    limits = LoginLimits(ONLY_PER_ADDRESS)

    assert limits.wait_s(HOST, "alice", 0.0, evaluating=4) == 0
    assert limits.wait_s(HOST, "alice", 0.0, evaluating=5) > 0


def test_a_user_who_logged_in_from_an_address_does_not_wait_for_failures_of_others_there() -> None:
    limits = LoginLimits()
    limits.note_succeeded(HOST, "alice")
    for number in range(50):
        limits.note_failed(HOST, f"user-{number}", 0.0)

    assert limits.wait_s(HOST, "bob", 0.0) > 0
    assert limits.wait_s(HOST, "alice", 0.0) == 0
    failed(limits, 5)
    assert limits.wait_s(HOST, "alice", 0.0) > 0


def test_all_addresses_of_a_network_of_ipv6_share_a_budget() -> None:
    limits = LoginLimits(ONLY_PER_USER)
    for number in range(3):
        limits.note_failed(f"2001:db8:0:1::{number}", "alice", 0.0)

    assert limits.wait_s("2001:db8:0:1:ffff::1%eth0", "alice", 0.0) > 0
    assert limits.wait_s("2001:db8:0:2::1", "alice", 0.0) == 0


def test_an_address_of_ipv4_is_one_however_it_is_written() -> None:
    limits = LoginLimits(ONLY_PER_USER)
    failed(limits, 3, host="::ffff:10.0.0.1")

    assert limits.wait_s(HOST, "alice", 0.0) > 0


def test_a_budget_of_zero_is_no_limit() -> None:
    limits = LoginLimits(LoginBudgets(0, 0))
    failed(limits, 1000)

    assert limits.wait_s(HOST, "alice", 0.0) == 0


def test_a_full_table_forgets_the_pair_whose_failure_is_longest_ago() -> None:
    limits = LoginLimits(ONLY_PER_USER, entries_max=2)
    for user in ("alice", "bob", "alice", "carol"):
        failed(limits, 3, user)

    assert limits.wait_s(HOST, "bob", 0.0) == 0
    assert limits.wait_s(HOST, "alice", 0.0) > 0


def shut_out_after(limits: LoginLimits, host: str, now_s: float = 0.0) -> int:
    """How many refusals an address gets before its connections are closed unread."""
    for count in range(1000):
        if limits.is_shut_out(host, now_s):
            return count
        limits.note_refused(host, now_s)
    return 1000


def test_an_address_that_is_refused_too_often_is_shut_out_for_a_moment() -> None:
    limits = LoginLimits()
    assert shut_out_after(limits, HOST) == REFUSALS_PER_S
    assert not limits.is_shut_out(OTHER, 0.0)
    assert not limits.is_shut_out(HOST, 1 / REFUSALS_PER_S)
    assert shut_out_after(limits, HOST, 1 / REFUSALS_PER_S) == 1


def test_an_address_that_a_user_logged_in_from_is_never_shut_out() -> None:
    limits = LoginLimits()
    limits.note_succeeded(HOST, "alice")
    assert shut_out_after(limits, HOST) == 1000


def test_an_address_that_has_failed_but_was_never_refused_is_let_in() -> None:
    limits = LoginLimits()
    for _ in range(1000):
        limits.note_failed(HOST, "alice", 0.0)
    assert not limits.is_shut_out(HOST, 0.0)


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from([HOST, OTHER, "2001:db8::1"]),
        st.sampled_from(["alice", "bob", "\udcff", ""]),
        st.booleans(),
        st.floats(0, 5),
    ),
    max_size=200,
)


@given(_EVENTS, st.integers(1, 4))
def test_no_history_evaluates_more_than_the_budgets_allow_or_keeps_more_than_the_table_holds(
    events: list[tuple[str, str, bool, float]], entries_max: int
) -> None:
    budgets = LoginBudgets(failures_per_user=2, failures_per_address_per_s=3, longest_wait_s=8)
    limits, now_s = LoginLimits(budgets, entries_max=entries_max), 0.0
    failures: list[tuple[str, float]] = []
    for host, user, is_right, pause_s in events:
        now_s += pause_s
        wait_s = limits.wait_s(host, user, now_s)
        assert 0 <= wait_s <= 8
        if wait_s:
            limits.note_refused(host, now_s)
            continue
        if is_right:
            limits.note_succeeded(host, user)
        else:
            limits.note_failed(host, user, now_s)
            failures.append((host, now_s))
        assert limits.entry_count <= 5 * entries_max
    if not any(is_right for _, _, is_right, _ in events) and entries_max >= 3:
        for host, at_s in failures:
            within = [one for one, then_s in failures if one == host and at_s <= then_s < at_s + 1]
            assert len(within) <= 2 * 3, "so many at once, and so many in the second after"


@pytest.mark.parametrize(
    ("token", "name"),
    [(b"\0alice\0secret", "alice"), (b"x\0bob\0", "bob"), (b"alice", ""), (b"", ""), (b"\0" * 20_000, "")],
)
def test_the_name_that_a_token_of_plain_claims(token: bytes, name: str) -> None:
    assert plain.claimed_name(token) == name


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"n,,n=alice,r=x", "alice"),
        (b"n,a=alice,n=a=2Cb,r=x", "a,b"),
        (b"n,,n=a=b,r=x", ""),
        (b"c=biws,r=x,p=y", ""),
        (b"\xff" * 5000, ""),
    ],
)
def test_the_name_that_a_first_message_of_scram_claims(token: bytes, name: str) -> None:
    assert scram.claimed_name(token) == name
