"""Subjects of commits are short and imperative: `area: verb what`, or `Verb what`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE = "99a868a2162da7db2c9d1a2e42b513d4ff5ed405"
"""The rule holds for commits after this one."""
BASE_TIME = "2026-11-17T19:10:02+00:00"
"""When it was made: a shallow checkout knows nothing else of it."""
LONGEST_SUBJECT = 72

FORM = re.compile(r"(?:[a-z][\w./-]*(?:, [a-z][\w./-]*)*: [a-z]|[A-Z][a-z]+ ).*[^.]")
# No program knows a verb from a noun; these beginnings are certainly no imperative.
NOT_IMPERATIVE = re.compile(r"(?:an?|the|what|which|who|how|every|each|no|some|\w+(?:ed|ing|[^su]s))\b", re.IGNORECASE)
IMPERATIVE = {"bring", "embed", "feed", "need", "seed", "speed"}


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def subjects() -> list[str]:
    """Subjects of the commits after the base; in a shallow checkout, of those that are there and younger than it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    top = git("rev-parse", "--show-toplevel")
    if top.returncode != 0 or Path(top.stdout.strip()).resolve() != ROOT:
        pytest.skip("these sources are no git checkout, so they have no commits")
    knows_base = git("cat-file", "-e", f"{BASE}^{{commit}}").returncode == 0
    after_base = [f"{BASE}..HEAD"] if knows_base else [f"--since={BASE_TIME}", "HEAD"]
    log = git("log", "--no-merges", "--format=%s", *after_base)
    assert log.returncode == 0, log.stderr
    return log.stdout.splitlines()


def complaints(subject: str) -> list[str]:
    """What is wrong with a subject."""
    first = subject.split(": ", 1)[-1].split(" ")[0].lower()
    wrong = {
        f"{len(subject)} columns, at most {LONGEST_SUBJECT}": len(subject) > LONGEST_SUBJECT,
        "neither `area: verb what` nor `Verb what`, without a full stop": not FORM.fullmatch(subject),
        f"`{first}` is no imperative": first not in IMPERATIVE and NOT_IMPERATIVE.fullmatch(first) is not None,
    }
    return [complaint for complaint, is_so in wrong.items() if is_so]


def test_subjects_of_commits_are_short_and_imperative() -> None:
    assert [(subject, found) for subject in subjects() if (found := complaints(subject))] == []


@pytest.mark.parametrize(
    "subject",
    [
        "broker: truncate a replica whose last leader epoch no leader wrote",
        "app, log: find changed headers with qanat log verify",
        "servers/http: answer 404 where a group is unknown",
        "Move modules to the field's names; give handlers an API layer",
        "log: process large batches in a worker",
    ],
)
def test_a_good_subject_is_accepted(subject: str) -> None:
    assert complaints(subject) == []


@pytest.mark.parametrize(
    "subject",
    [
        "broker: truncate a replica.",
        "broker: a follower flushes again",
        "broker: truncated a replica",
        "broker: adds a test",
        "truncate a replica",
        "Broker: truncate a replica",
        "Truncate",
        "broker: truncate " + "x" * 56,
    ],
)
def test_another_subject_is_refused(subject: str) -> None:
    assert complaints(subject) != []
