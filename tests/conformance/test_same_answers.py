"""Qanat answers as Apache Kafka 4.1 did when the same conversations were recorded, field by field."""

from __future__ import annotations

import fnmatch
import re

import pytest
from verify.conformance import brokers, page, script, table
from verify.conformance.users import USERS

from qanat.api.api_table import SERVED
from qanat.model.errors import QanatError

CONVERSATIONS = sorted(script.load())
NOT_IN_KAFKA = ("GetReplicaLogInfo", "GetTelemetrySubscriptions", "PushTelemetry")
"""Between brokers, and not served by Kafka 4.1 or 4.2 (KIP-966); served by Kafka with a plug-in only (KIP-714)."""
FOR_EVERYONE = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
SOME_USERS = ("none", "literal", "denied", "root")
_BY_A_USER = re.compile(r"(\w+) v(\d+) \[([\w-]+)\]")


def hold(name: str) -> tuple[list[table.Difference], list[BaseException]]:
    """The differences in one conversation with a fresh node, and the node's faults."""
    with brokers.qanat(is_secured=name in script.SECURED) as (address, faults):
        play = script.play_of(address, name)
        script.hold(play)
    return list(table.compare(name, table.read(name), play.steps)), faults


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_same_answers(name: str) -> None:
    known = table.listed()
    differences, faults = hold(name)

    unknown = [str(one) for one in differences if not any(entry.covers(one.place) for entry in known)]
    unused = [
        pattern
        for entry in known
        for pattern in entry.where
        if pattern.split("|")[0] == name and not any(fnmatch.fnmatchcase(one.place, pattern) for one in differences)
    ]
    assert not unknown, "\n".join(unknown)
    assert not unused, "listed, but the same: remove it from the list"
    assert [fault for fault in faults if not isinstance(fault, QanatError)] == []


def test_every_listed_difference_names_a_conversation() -> None:
    named = [pattern.split("|")[0] for entry in table.listed() for pattern in entry.where]

    assert [name for name in named if name not in CONVERSATIONS] == []


def test_nothing_is_recorded_that_is_not_held() -> None:
    assert sorted(path.stem for path in table.paths()) == CONVERSATIONS


def test_every_api_in_every_version_is_part_of_a_conversation() -> None:
    titles = [step.title for name in CONVERSATIONS for step in table.read(name)]
    asked = {tuple(title.replace(":", "").split()[:2]) for title in titles}
    served = [
        (one.api.name, f"v{version}")
        for one in SERVED.values()
        if one.api.name not in NOT_IN_KAFKA
        for version in range(one.first_version, one.last_version + 1)
    ]

    assert [row for row in served if row not in asked] == []


def test_every_api_in_every_version_is_asked_for_by_every_user() -> None:
    """A new API, or a new version of one, needs its request in `verify/conformance/conversations/access`."""
    titles = [step.title for name in CONVERSATIONS if name in script.SECURED for step in table.read(name)]
    asked = {(found[1], int(found[2]), found[3]) for title in titles if (found := _BY_A_USER.match(title))}
    wanted = [
        (one.api.name, version, user)
        for one in SERVED.values()
        if one.api.name not in NOT_IN_KAFKA
        for version in range(one.first_version, one.last_version + 1)
        for user in (SOME_USERS if one.api.name in FOR_EVERYONE else USERS)
    ]

    assert [row for row in wanted if row not in asked] == []


def test_the_page_about_differences_is_the_list() -> None:
    assert page.PAGE.read_text() == page.rendered(), "run python -m verify.conformance.page"
