"""Records judged: the reasons of dead letters, and what passes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from qanat.spark.rollups.measurements import NOT_AN_OBJECT, judge
from qanat.spark.rollups.rules import Rules

AT = 1_750_003_200_000
RULES = Rules(600_000, 60_000, "10 minutes", "1 minute")


def said(**fields: object) -> bytes:
    usual = {"id": "a", "metric": "m", "source": "s", "time": AT, "value": 1.0}
    return json.dumps({name: value for name, value in {**usual, **fields}.items() if value is not None}).encode()


def reason(value: bytes | None) -> str | None:
    judged = judge([said(), value, said()], np.full(3, AT, np.int64), RULES)
    assert len(judged.values) == len(judged.ids) == 3 - len(judged.dead)
    return judged.dead.get(1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it has no value"),
        (b"", NOT_AN_OBJECT),
        (b"{", NOT_AN_OBJECT),
        (b"null", NOT_AN_OBJECT),
        (b'"text"', NOT_AN_OBJECT),
        (b"[1, 2]", NOT_AN_OBJECT),
        (b"{}", NOT_AN_OBJECT),
        (b"\xff\xfe", NOT_AN_OBJECT),
        (b'{"id": "a\xff", "metric": "m", "source": "s", "time": 1, "value": 1}', NOT_AN_OBJECT),
        (b"[" * 100_000, NOT_AN_OBJECT),
        (said() + said(), NOT_AN_OBJECT),
        (said(id=None), "id is missing, or no text"),
        (said(id=""), "id is missing, or no text"),
        (said(id=7), "id is missing, or no text"),
        (said(metric=""), "metric is missing, or no text"),
        (said(source=None), "source is missing, or no text"),
        (said(time=None), "time is missing, or no whole number of milliseconds"),
        (said(time="noon"), "time is missing, or no whole number of milliseconds"),
        (said(time=AT + 0.5), "time is missing, or no whole number of milliseconds"),
        (said(time=True), "time is missing, or no whole number of milliseconds"),
        (said(time=2**63), "time is missing, or no whole number of milliseconds"),
        (said(time=10**30), "time is missing, or no whole number of milliseconds"),
        (said(value=None), "value is missing, or no number"),
        (said(value="7"), "value is missing, or no number"),
        (said(value=False), "value is missing, or no number"),
        (said(value=float("nan")), "value is not finite"),
        (said(value=float("-inf")), "value is not finite"),
        (said(time=AT + 60_001), "time lies more than 1 minute after its place in the log"),
        (said(time=AT - 600_001), "late: time lies more than 10 minutes before its place in the log"),
    ],
)
def test_a_record_that_is_no_measurement_has_a_reason(value: bytes | None, why: str) -> None:
    assert reason(value) == why


@pytest.mark.parametrize(
    "value",
    [
        said(value=7),
        said(time=AT + 60_000),
        said(time=AT - 600_000),
        said(id="Ümläut ☃", metric="größe"),
        said(more={"nested": [1, 2]}),
        said(value=-0.0),
        said(value=5e-324),
        b" " + said() + b"\n",
    ],
)
def test_measurements_pass(value: bytes) -> None:
    assert reason(value) is None


def test_text_that_cannot_be_encoded_is_rejected() -> None:
    assert (
        reason(rb'{"id": "\ud800", "metric": "m", "source": "s", "time": 1750003200000, "value": 1}') == NOT_AN_OBJECT
    )
