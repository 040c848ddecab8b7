"""When keys are fetched, and how long they count."""

from __future__ import annotations

from tests.security.identity_provider import KeyPair, jwks

from qanat.security.bearer_tokens import read_keys
from qanat.security.key_refresh import ASK_PAUSE_S, SAME_KEY_PAUSE_S, KeyRefresh

KEYS = read_keys(jwks(KeyPair("a", "EdDSA")))


def refresh() -> KeyRefresh:
    return KeyRefresh(refresh_s=3600, retry_s=0.1, retry_max_s=10, stale_max_s=86_400)


def test_the_first_fetch_is_due_at_once_and_the_next_after_the_refresh_time() -> None:
    keys = refresh()
    assert (keys.due_s, keys.keys_at(50)) == (0, None)
    keys.fetched(KEYS, 100)
    assert (keys.due_s, keys.keys_at(100), keys.fault) == (3700, KEYS, "")


def test_a_failed_fetch_is_repeated_with_a_growing_pause() -> None:
    keys = refresh()
    pauses = []
    for _ in range(10):
        keys.failed("down", 1000)
        pauses.append(round(keys.due_s - 1000, 3))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10]
    for _ in range(2000):
        keys.failed("down", 1000)
    keys.fetched(KEYS, 1000)
    keys.failed("down again", 2000)
    assert (round(keys.due_s - 2000, 3), keys.fault) == (0.1, "down again")


def test_keys_outlive_an_outage_for_the_stated_time_and_no_longer() -> None:
    keys = refresh()
    keys.fetched(KEYS, 100)
    keys.failed("down", 3700)
    assert keys.keys_at(100 + 86_399) is KEYS
    assert keys.keys_at(100 + 86_400) is None
    keys.fetched(KEYS, 90_000)
    assert keys.keys_at(90_000) is KEYS


def test_an_unknown_key_asks_once() -> None:
    keys = refresh()
    keys.fetched(KEYS, 100)
    assert keys.may_ask("new", 200)
    assert not keys.may_ask("new", 200 + ASK_PAUSE_S)
    assert not keys.may_ask("new", 200 + SAME_KEY_PAUSE_S - 0.1)
    assert keys.may_ask("new", 200 + SAME_KEY_PAUSE_S)


def test_many_unknown_keys_together_ask_once_in_a_while() -> None:
    keys = refresh()
    keys.fetched(KEYS, 100)
    asked = [at for at in range(200, 260) if any(keys.may_ask(f"{at}-{one}", at) for one in range(50))]
    assert asked == [200, 210, 220, 230, 240, 250]


def test_no_client_fills_the_memory_of_unknown_keys_or_shuts_others_out_with_it() -> None:
    keys = refresh()
    keys.fetched(KEYS, 0)
    now = 0.0
    for one in range(1000):
        now += ASK_PAUSE_S / 100
        keys.may_ask(f"junk-{one}", now)
    assert len(keys._asked) <= 100
    assert keys.may_ask("new", now + ASK_PAUSE_S)


def test_an_unknown_key_does_not_break_the_back_off_of_failed_fetches() -> None:
    keys = refresh()
    keys.fetched(KEYS, 100)
    for _ in range(10):
        keys.failed("down", 4000)
    assert not keys.may_ask("new", 4005)
    assert keys.may_ask("new", 4010)
