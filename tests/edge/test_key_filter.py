"""Filters of keys: what they let through, alone and one after the other."""

from __future__ import annotations

import itertools

import pytest

from qanat.edge.key_filter import common, normal, of_setting, passing, to_setting, wanted_keys, why_no_entry
from qanat.edge.topology import is_wanted, keys_wanted

FILTERS = [("a",), ("a*",), ("ab*", "c"), ("b", "c*"), ("abc", "ab", "b*"), ("*",)]
KEYS = ["", "a", "ab", "abc", "abd", "b", "ba", "c", "cd", "d", None]


def through(keys: tuple[str, ...]) -> list[str | None]:
    does_pass = passing(keys)
    return [one for one in KEYS if does_pass(None if one is None else one.encode())]


def test_a_key_passes_in_full_or_by_its_beginning_and_none_without() -> None:
    assert through(("a",)) == ["a"]
    assert through(("ab*", "c")) == ["ab", "abc", "abd", "c"]
    assert through(("*",)) == KEYS[:-1]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(FILTERS, FILTERS)))
def test_what_is_common_to_two_filters_is_what_passes_both(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    both = common(normal(one), normal(other))
    expected = [key for key in through(one) if key in through(other)]

    assert (through(both) if both is not None else []) == expected
    assert both == common(normal(other), normal(one))


def test_a_filter_within_another_is_left_as_it_is() -> None:
    assert common(("a*",), ("ab", "ac*")) == ("ab", "ac*")
    assert common((), ("ab",)) == common(("ab",), ()) == ("ab",)
    assert common((), ()) == ()
    assert common(("a",), ("b",)) is None


def test_the_normal_form_has_nothing_twice() -> None:
    assert normal(["b", "a*", "ab", "abc*", "b"]) == ("a*", "b")
    assert of_setting(to_setting(("a*", "b"))) == ("a*", "b")
    assert of_setting("") == ()


def test_entries_of_a_topic_add_up_and_one_without_a_key_wants_all() -> None:
    entries = ("sales:store-17", "sales:common-*", "price*", "prices:AAPL")

    assert keys_wanted("sales", entries) == ("common-*", "store-17")
    assert keys_wanted("prices", entries) == ()
    assert keys_wanted("orders", entries) is None
    assert keys_wanted("__sales", ("*:a",)) is None
    assert is_wanted("sales", entries)
    assert wanted_keys(["*:store-17"]) == ("store-17",)


@pytest.mark.parametrize("entry", ["sales", "*", "sales-*", "sales:a", "*:a*", "sales:a:b", "sales:*"])
def test_entries_that_are_accepted(entry: str) -> None:
    assert why_no_entry(entry) is None


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("", "names no topic"),
        (":a", "names no topic"),
        ("sa les", "names no topic"),
        ("sa*les", "names no topic"),
        ("sales:", "is no key to filter by"),
        ("sales:a,b", "without a comma"),
        ("sales:" + "k" * 501, "1 to 500 characters"),
    ],
)
def test_entries_that_are_refused(entry: str, reason: str) -> None:
    assert reason in (why_no_entry(entry) or "")
