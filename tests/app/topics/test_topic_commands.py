"""`qanat topic` and `qanat config`, as processes against a real broker."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.app.conftest import Run

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.records.json_envelope import decode_envelope
from qanat.app.records.topic_positions import parse_timestamp


def test_a_topic_is_created_listed_and_described(run: Run) -> None:
    created = run("topic", "create", "t-life", "-p", "2", "-c", "retention.ms=86400000")
    listed = json.loads(run("topic", "list", "-o", "json").stdout)
    described = json.loads(run("topic", "describe", "t-life", "-o", "json").stdout)

    assert created.stdout == "created t-life with 2 partitions\n"
    assert [(row["partitions"], row["internal"]) for row in listed if row["topic"] == "t-life"] == [(2, False)]
    assert [(row["partition"], row["first_offset"], row["end_offset"]) for row in described] == [(0, 0, 0), (1, 0, 0)]


def test_every_output_of_a_listing_is_what_it_says(run: Run) -> None:
    run("topic", "create", "t-forms")
    forms = {form: run("topic", "list", "-r", "^t-forms$", "-o", form).stdout for form in ("csv", "jsonl", "names")}
    table = run("topic", "list", "-r", "^t-forms$").stdout.splitlines()

    assert forms["names"] == "t-forms\n"
    assert json.loads(forms["jsonl"])["topic"] == "t-forms"
    assert [row["topic"] for row in csv.DictReader(io.StringIO(forms["csv"]))] == ["t-forms"]
    assert [line.split()[0] for line in table] == ["topic", "t-forms"]


def test_creating_twice_is_refused_unless_it_is_said_to_be_fine(run: Run) -> None:
    run("topic", "create", "t-twice")
    refused, fine = run("topic", "create", "t-twice"), run("topic", "create", "t-twice", "--if-not-exists")

    assert (refused.returncode, fine.returncode) == (1, 0)
    assert refused.stderr.startswith("qanat: cannot create topic t-twice: ")
    assert fine.stdout == "t-twice exists\n"


def test_a_dry_run_creates_nothing(run: Run) -> None:
    result = run("topic", "create", "t-dry", "--dry-run")

    assert result.stdout.startswith("would create t-dry")
    assert "t-dry" not in run("topic", "list", "-o", "names").stdout


def test_a_bad_setting_is_refused_by_name(run: Run) -> None:
    result = run("topic", "create", "t-bad", "-c", "retention.ms=soon")

    assert result.returncode == 1
    assert "retention.ms" in result.stderr
    assert result.stderr.count("\n") == 1


def test_settings_are_shown_and_changed(run: Run) -> None:
    run("topic", "create", "t-set", "-c", "retention.ms=1000")
    altered = run("topic", "alter", "t-set", "segment.bytes=2000000", "--delete", "retention.ms")
    changed = json.loads(run("config", "get", "topic", "t-set", "--changed", "-o", "json").stdout)
    run("config", "set", "topic", "t-set", "segment.bytes=3000000")
    one = json.loads(run("config", "get", "topic", "t-set", "segment.bytes", "-o", "json").stdout)

    assert altered.stdout == "t-set has segment.bytes=2000000\nt-set has retention.ms by default\n"
    assert [(row["setting"], row["value"]) for row in changed] == [("segment.bytes", "2000000")]
    assert [(row["value"], row["source"]) for row in one] == [("3000000", "topic")]


def test_a_brokers_settings_are_shown(run: Run) -> None:
    rows = json.loads(run("config", "get", "broker", "0", "num.partitions", "-o", "json").stdout)

    assert [(row["setting"], row["value"], row["source"]) for row in rows] == [("num.partitions", "4", "default")]


def test_a_misspelled_setting_is_named_with_the_nearest(run: Run) -> None:
    run("topic", "create", "t-spell")
    asked = run("config", "get", "topic", "t-spell", "retention.sm")
    changed = run("config", "set", "topic", "t-spell", "retention.sm=1")
    nothing = run("config", "set", "topic", "t-spell")

    assert asked.stderr == "qanat: a topic has no setting retention.sm; did you mean retention.ms?\n"
    assert "retention.sm" in changed.stderr
    assert nothing.stderr == "qanat: nothing to change: give name=value, or --delete name\n"
    assert {asked.returncode, changed.returncode, nothing.returncode} == {1}


def test_a_topic_grows_and_does_not_shrink(run: Run) -> None:
    run("topic", "create", "t-grow", "-p", "2")
    grown, shrunk = (run("topic", "add-partitions", "t-grow", "--to", number) for number in ("3", "1"))

    assert grown.stdout == "t-grow has 3 partitions\n"
    assert shrunk.returncode == 1
    assert shrunk.stderr.startswith("qanat: cannot add partitions to t-grow: ")


def test_an_unclean_election_needs_consent(run: Run) -> None:
    run("topic", "create", "t-elect", "-p", "1")

    asked = run("cluster", "elect", "t-elect:0", "--unclean")
    done = run("cluster", "elect", "t-elect:0", "--unclean", "--yes")

    assert (asked.returncode, asked.stderr) == (1, "qanat: nothing was elected: add --yes to do it\n")
    assert "Leader election not needed" in done.stdout


def test_trimming_needs_consent(run: Run) -> None:
    run("topic", "create", "t-trim", "-p", "1")
    run("produce", "t-trim", given="a\nb\nc\n")
    asked = run("topic", "trim", "t-trim", "--before", "2", "-o", "json")
    before = run("consume", "t-trim", "-e").stdout
    done = run("topic", "trim", "t-trim", "--before", "2", "--yes", "-o", "json")
    after = run("consume", "t-trim", "-e").stdout

    assert json.loads(asked.stdout)[0]["removed_offsets"] == 2
    assert asked.stderr == "qanat: nothing was removed: add --yes to do it\n"
    assert (asked.returncode, done.returncode) == (1, 0)
    assert (before, after) == ("a\nb\nc\n", "c\n")


def test_deleting_needs_consent(run: Run) -> None:
    run("topic", "create", "t-gone", "-p", "1")
    asked, dry = run("topic", "delete", "t-gone"), run("topic", "delete", "t-gone", "--dry-run")
    done = run("topic", "delete", "t-gone", "--yes")

    assert asked.stdout == dry.stdout == "would delete t-gone with 1 partitions\n"
    assert (asked.returncode, dry.returncode, done.returncode) == (1, 0, 0)
    assert done.stdout == "deleted t-gone\n"
    assert "t-gone" not in run("topic", "list", "-o", "names").stdout


def test_a_missing_topic_is_one_sentence_with_the_nearest_name(run: Run) -> None:
    run("topic", "create", "t-nearly")
    for arguments in (("describe", "t-neatly"), ("delete", "t-neatly"), ("trim", "t-neatly", "--before", "end")):
        result = run("topic", *arguments)

        assert result.returncode == 1
        assert result.stderr == "qanat: there is no topic t-neatly; did you mean t-nearly?\n"


def test_wrong_arguments_are_said_to_be_wrong(run: Run) -> None:
    cases = {
        ("topic", "describe"): "qanat: name a topic, or several with --regex\n",
        ("topic", "list", "-r", "("): "qanat: --regex (: missing ), unterminated subpattern at position 0\n",
        ("topic", "alter", "x", "y"): "qanat: 'y' should read name=value\n",
        ("config", "get", "broker", "x"): "qanat: a broker is named by its number, not 'x'\n",
    }

    for arguments, message in cases.items():
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (1, message)


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.999", "30000d"])
def test_a_moment_before_1970_is_refused_and_not_taken_for_the_end(text: str) -> None:
    with pytest.raises(WrongArgumentError, match="before 1970"):
        parse_timestamp(text, now_ms=1_700_000_000_000)


@pytest.mark.parametrize("line", [b"{}", b'{"valu": "x"}'])
def test_an_envelope_without_a_value_is_no_tombstone(line: bytes) -> None:
    with pytest.raises(WrongArgumentError, match='line 7 is not an envelope: it has no "value"'):
        decode_envelope(line, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic", "create", "t-huge", "-p", "99999999999"), "CreateTopics cannot be asked for: "),
        (("topic", "create", "t-huge", "-r", "99999"), "CreateTopics cannot be asked for: "),
        (("topic", "add-partitions", "t-grown", "--to", "99999999999"), "CreatePartitions cannot be asked for: "),
        (
            ("group", "describe", "x" * 40_000),
            "FindCoordinator cannot be asked for: a string of 40000 bytes does not fit",
        ),
        (("group", "reset", "g", "--topic", "t", "--to-offset", "-1"), "--to-offset -1: offsets begin with 0; "),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_the_protocol_has_no_room_for_is_one_sentence(run: Run, arguments: tuple[str, ...], message: str) -> None:
    run("topic", "create", "t-grown", "--if-not-exists")
    result = run(*arguments)

    assert (result.returncode, result.stderr[: len(message) + 7]) == (1, f"qanat: {message}")
    assert result.stderr.count("\n") == 1
