"""Limits of failed logins: how long an address has to wait before its next guess is evaluated.

Two budgets bound what one address can guess:

- per address and user: a few failures are free, each further one doubles the wait;
- per address: failures over all user names, so many a second.

A login that has to wait is refused before its secret is looked at: it costs nothing, and counts nowhere.

Rule 1: there is no budget per user alone. A client that guesses cannot lock a user out elsewhere.
Rule 2: a user who logged in from an address lately does not wait for failures of other users of that address: one
        misconfigured client behind a shared address does not stop the others.
Rule 3: an address that is refused more often than `REFUSALS_PER_S` is shut out for a moment: its next connections are
        closed unread, for an answer costs more than the guess. Open connections stay. An address from which a user
        logged in lately is never shut out (rule 2).
Rule 4: memory is bounded, however many names and addresses clients use. A full table forgets its oldest entry: the
        one whose last failure is longest ago.
Rule 5: an address of IPv6 counts as its /64 network, all of which one host can have.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from msgspec import Struct

FIRST_WAIT_S = 1.0
"""The wait after the last free failure; it doubles with every further one."""
FORGET_S = 15 * 60.0
"""How long after its last failure an address and user start anew."""
ENTRIES_MAX = 10_000
"""Entries of each table."""
REFUSALS_PER_S = 5
"""Logins of one address that are answered with a refusal: so many a second, and so many at once after a pause."""
_NETWORK_BITS = 64
_DIGEST_BYTES = 16


class LoginBudgets(Struct, frozen=True):
    """The sizes of the budgets; 0 switches one off."""

    failures_per_user: int = 5
    """Failures of one user from one address that are free."""
    failures_per_address_per_s: int = 5
    """Failures from one address: so many a second, and so many at once after a pause."""
    longest_wait_s: float = 60.0


class _Failures(Struct):
    """Failures of one user from one address."""

    count: int
    last_s: float
    waits_until_s: float


class _Bucket(Struct):
    """A budget of an address: failures or refusals that are left, as of a time."""

    left: float
    at_s: float


_Pair = tuple[str, bytes]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LoginLimits:
    """Failed logins of all addresses; times are seconds of one clock that never goes back."""

    def __init__(self, budgets: LoginBudgets | None = None, *, entries_max: int = ENTRIES_MAX) -> None:
        self._budgets = budgets or LoginBudgets()
        self._entries_max = entries_max
        self._pairs: dict[_Pair, _Failures] = {}
        """By their last failure, oldest first."""
        self._addresses: dict[str, _Bucket] = {}
        """By their last failure, oldest first."""
        self._refused: dict[str, _Bucket] = {}
        """Addresses that were refused, by their last refusal, oldest first (rule 3)."""
        self._known: dict[_Pair, None] = {}
        """Users that logged in from an address, by their last login, oldest first (rule 2)."""
        self._homes: dict[str, None] = {}
        """Addresses that users logged in from, by the last login, oldest first (rule 3)."""

    @property
    def entry_count(self) -> int:
        return len(self._pairs) + len(self._addresses) + len(self._refused) + len(self._known) + len(self._homes)

    def wait_s(self, host: str, user: str, now_s: float, evaluating: int = 0) -> float:
        """How long a login has to wait; 0 where its secret may be looked at.

        `user` is empty where the mechanism does not say it before. `evaluating` logins of this address have no outcome
        yet: they count as failures.
        """
        address = login_network(host)
        pair = address, _digest(user)
        failures = self._pairs.get(pair) if user else None
        if failures is not None and now_s < failures.waits_until_s:
            return failures.waits_until_s - now_s
        if user and pair in self._known:
            return 0.0
        return self._address_wait_s(address, now_s, evaluating)

    def is_shut_out(self, host: str, now_s: float) -> bool:
        """Whether a new connection of this address is closed unread (rule 3)."""
        address = login_network(host)
        if address not in self._refused or address in self._homes:
            return False
        return _left(self._refused, address, REFUSALS_PER_S, now_s) < 1

    def note_refused(self, host: str, now_s: float) -> None:
        """Count a login that was refused because it has to wait."""
        _charge(self._refused, login_network(host), REFUSALS_PER_S, now_s, self._entries_max)

    def note_failed(self, host: str, user: str, now_s: float) -> None:
        """Count a login whose secret was wrong."""
        address, budgets = login_network(host), self._budgets
        if rate := budgets.failures_per_address_per_s:
            _charge(self._addresses, address, rate, now_s, self._entries_max)
        if not user or not budgets.failures_per_user:
            return
        pair = address, _digest(user)
        before = self._pairs.pop(pair, None)
        count = 1 if before is None or now_s - before.last_s > FORGET_S else before.count + 1
        beyond = count - budgets.failures_per_user
        # The exponent is bounded: a power of two beyond any wait would only cost memory.
        wait_s = 0.0 if beyond < 0 else min(budgets.longest_wait_s, FIRST_WAIT_S * 2.0 ** min(beyond, 32))
        _put(self._pairs, pair, _Failures(count, now_s, now_s + wait_s), self._entries_max)

    def note_succeeded(self, host: str, user: str) -> None:
        """Forget the failures of a user that has logged in."""
        address = login_network(host)
        self._homes.pop(address, None)
        _put(self._homes, address, None, self._entries_max)
        if user:
            pair = address, _digest(user)
            self._pairs.pop(pair, None)
            self._known.pop(pair, None)
            _put(self._known, pair, None, self._entries_max)

    def _address_wait_s(self, address: str, now_s: float, evaluating: int) -> float:
        rate = self._budgets.failures_per_address_per_s
        if not rate:
            return 0.0
        missing = 1 - (_left(self._addresses, address, rate, now_s) - evaluating)
        return missing / rate if missing > 0 else 0.0


def _left(buckets: dict[str, _Bucket], address: str, rate: int, now_s: float) -> float:
    """What an address has left now of a budget."""
    bucket = buckets.get(address)
    return rate if bucket is None else min(rate, bucket.left + (now_s - bucket.at_s) * rate)


def _charge(buckets: dict[str, _Bucket], address: str, rate: int, now_s: float, entries_max: int) -> None:
    """Take one from a budget."""
    left = _left(buckets, address, rate, now_s)
    buckets.pop(address, None)
    _put(buckets, address, _Bucket(left - 1, now_s), entries_max)


@lru_cache(maxsize=1024)
def login_network(host: str) -> str:
    """What counts as one address.

    >>> login_network("10.0.0.7"), login_network("::ffff:10.0.0.7"), login_network("2001:db8:1:2:3::4")
    ('10.0.0.7', '10.0.0.7', '2001:db8:1:2::/64')
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    host_bits = 128 - _NETWORK_BITS
    return f"{IPv6Address(int(address) >> host_bits << host_bits)}/{_NETWORK_BITS}"


def _digest(user: str) -> bytes:
    """A name of bounded size, whatever the client sent."""
    return hashlib.blake2b(user.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _put(table: dict[_Key, _Value], key: _Key, value: _Value, entries_max: int) -> None:
    """Add an entry as the newest one (rule 4)."""
    if len(table) >= entries_max:
        del table[next(iter(table))]
    table[key] = value
