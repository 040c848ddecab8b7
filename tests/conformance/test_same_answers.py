"""Qanat answers as Apache Kafka 4.1 did when the same conversations were recorded, field by field."""

from __future__ import annotations

import fnmatch

import pytest
from verify.conformance import brokers, page, script, table
from verify.conformance.play import Play

from qanat.api.api_table import SERVED
from qanat.model.errors import QanatError

CONVERSATIONS = sorted(script.load())
NOT_IN_KAFKA = ("GetReplicaLogInfo",)
"""Between brokers, and newer than the recorded Kafka (KIP-966)."""
NOT_RECORDED = (
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
)
"""The recorded Kafka has neither an authorizer nor users; `tests/servers/kafka/test_acls.py` asks for these."""


def hold(name: str) -> tuple[list[table.Difference], list[BaseException]]:
    """The differences in one conversation with a fresh node, and the node's faults."""
    with brokers.qanat() as (address, faults):
        play = Play(address, name)
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
    assert sorted(path.stem for path in table.RECORDED.glob("*.jsonl")) == CONVERSATIONS


def test_every_api_in_every_version_is_part_of_a_conversation() -> None:
    titles = [step.title for name in CONVERSATIONS for step in table.read(name)]
    asked = {tuple(title.replace(":", "").split()[:2]) for title in titles}
    served = [
        (one.api.name, f"v{version}")
        for one in SERVED.values()
        if one.api.name not in (*NOT_IN_KAFKA, *NOT_RECORDED)
        for version in range(one.first_version, one.last_version + 1)
    ]

    assert [row for row in served if row not in asked] == []


def test_the_page_about_differences_is_the_list() -> None:
    assert page.PAGE.read_text() == page.rendered(), "run python -m verify.conformance.page"
