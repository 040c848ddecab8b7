"""Which clients push what: subscriptions, and what they want of a client together."""

from __future__ import annotations

import time

import pytest

from qanat.cluster.client_metrics import Subscription, parse_subscription, wanted_of
from qanat.model.errors import InvalidSettingError

CLIENT = {
    "client_id": "billing-7",
    "client_instance_id": "a",
    "client_software_name": "librdkafka",
    "client_source_port": "4711",
}


def test_a_client_gets_what_all_matching_subscriptions_want_together() -> None:
    subscriptions = [
        parse_subscription({"metrics": "b., a.", "interval.ms": "9000"}),
        parse_subscription({"metrics": "c.", "interval.ms": "500", "match": "client_id=billing-.*"}),
        parse_subscription({"metrics": "d.", "interval.ms": "100", "match": "client_id=billing"}),
        parse_subscription({"interval.ms": "100"}),
    ]
    wanted = wanted_of(subscriptions, CLIENT)

    assert (wanted.metrics, wanted.interval_ms) == (("a.", "b.", "c."), 500)
    assert -(1 << 31) <= wanted.subscription_id < 1 << 31
    assert wanted_of(subscriptions[:1], CLIENT).subscription_id != wanted.subscription_id
    assert wanted_of(subscriptions, {**CLIENT, "client_instance_id": "b"}).subscription_id != wanted.subscription_id


def test_all_metrics_swallow_the_others_and_nothing_wants_nothing() -> None:
    assert wanted_of([parse_subscription({"metrics": "a.,*"})], CLIENT).metrics == ("*",)
    assert wanted_of([], CLIENT).metrics == ()
    assert wanted_of([], CLIENT).interval_ms == 300_000


def test_every_pattern_has_to_match_as_a_whole() -> None:
    def matches(text: str, **more: str) -> bool:
        return parse_subscription({"metrics": "*", "match": text}).matches({**CLIENT, **more})

    assert matches("client_id=billing-\\d+,client_software_name=librdkafka|rdkafka")
    assert matches("client_source_port=4[0-9]{3}")
    assert not matches("client_id=billing")
    assert not matches("client_id=billing-7,client_source_address=10\\..*")
    assert not matches("client_id=.*", client_id="x" * 300)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"interval.ms": "99"}, "between 100 and 3600000"),
        ({"interval.ms": "soon"}, "Not a number"),
        ({"odd": "1"}, "Unknown client metrics configuration: odd"),
        ({"match": "client_id"}, "Illegal client matching pattern"),
        ({"match": "colour=red"}, "Illegal client matching property: colour"),
        ({"match": "client_id=("}, "Illegal client matching pattern"),
        ({"match": "client_id=(a+)+b"}, "could take too long"),
        ({"match": "client_id=((a|b)*c?)*"}, "could take too long"),
        ({"match": "client_id=a*a*a*a*a*b"}, "could take too long"),
        ({"match": "client_id=(a)\\1"}, "could take too long"),
        ({"match": f"client_id={'a' * 1001}"}, "could take too long"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(configs: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason):
        parse_subscription(configs)


def test_a_pattern_that_is_accepted_is_quick_on_any_text() -> None:
    subscription: Subscription = parse_subscription({"metrics": "*", "match": "client_id=.*a.*b.*c.*"})
    began = time.thread_time()

    assert not subscription.matches({**CLIENT, "client_id": "ab" * 128})
    assert time.thread_time() - began < 1
