"""`qanat produce | qanat consume`: records go in and come out, in every form."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from tests.app.conftest import Run
from tests.app.consumers import on_terminal
from tests.app.processes import QANAT, TIMEOUT_SECONDS, clean_environment, qanat, running_broker

from qanat.wire.key_hash import partition_of


def test_lines_come_back_as_they_went(run: Run) -> None:
    run("topic", "create", "p-lines", "-p", "1")
    text = "one\n\nthree with spaces\nfünf\nno end"
    assert run("produce", "p-lines", given=text).returncode == 0

    assert run("consume", "p-lines", "-e").stdout == text + "\n"


def test_keys_go_where_java_would_put_them(run: Run) -> None:
    run("topic", "create", "p-keys", "-p", "7")
    keys = [f"key-{number}" for number in range(20)]
    run("produce", "p-keys", "-k", ":", given="".join(f"{key}:v:{key}\n" for key in keys))
    lines = run("consume", "p-keys", "-e", "-f", r"%p %k %s\n").stdout.splitlines()

    assert sorted(lines) == sorted(f"{partition_of(key.encode(), 7)} {key} v:{key}" for key in keys)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acknowledgement_works(run: Run, codec: str) -> None:
    topic = f"p-codec-{codec}"
    run("topic", "create", topic, "-p", "1")
    for acks in ("all", "1", "0"):
        run("produce", topic, "-z", codec, "--acks", acks, given=f"{acks}\n" * 3)

    assert run("consume", topic, "-n", "9").stdout.split() == ["all"] * 3 + ["1"] * 3 + ["0"] * 3


def test_an_envelope_makes_the_round_trip(run: Run) -> None:
    run("topic", "create", "p-source", "-p", "1")
    run("topic", "create", "p-copy", "-p", "1")
    binary = b'{"key": null, "value": {"base64": "/wD+"}, "headers": [["h", "1"], ["h", null]], "timestamp": 77}\n'
    assert run("produce", "p-source", "-J", given=binary).returncode == 0
    assert run("produce", "p-source", "-k", "=", "-Z", "-H", "a=b", given="k=v\ngone=\n").returncode == 0
    envelopes = run("consume", "p-source", "-e", "--json-envelope").stdout
    assert run("produce", "p-copy", "--json-envelope", given=envelopes).returncode == 0
    copies = run("consume", "p-copy", "-e", "--json-envelope").stdout

    first, second, third = map(json.loads, envelopes.splitlines())
    assert (first["value"], first["headers"], first["timestamp"]) == ({"base64": "/wD+"}, [["h", "1"], ["h", None]], 77)
    assert (second["key"], second["value"], second["headers"]) == ("k", "v", [["a", "b"]])
    assert (third["key"], third["value"]) == ("gone", None)
    assert copies == envelopes.replace("p-source", "p-copy")


def test_much_goes_through_real_pipes_in_order(run: Run, broker_address: str) -> None:
    run("topic", "create", "p-much", "-p", "1")
    lines = "".join(f"{number:07d} {'x' * 90}\n" for number in range(50_000))
    arguments = {"QANAT_BOOTSTRAP_SERVERS": broker_address}
    assert qanat("produce", "p-much", "-z", "lz4", given=lines, **arguments).returncode == 0

    assert qanat("consume", "p-much", "-e", **arguments).stdout == lines


@pytest.fixture(scope="module")
def counted(broker_address: str) -> str:
    """A topic with the numbers 0 to 9 in one partition."""
    arguments = {"QANAT_BOOTSTRAP_SERVERS": broker_address}
    qanat("topic", "create", "p-counted", "-p", "1", **arguments)
    qanat("produce", "p-counted", given="".join(f"{number}\n" for number in range(10)), **arguments)
    return "p-counted"


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        (("-e",), range(10)),
        (("--from", "7", "-e"), range(7, 10)),
        (("--from", "+2", "-e"), range(2, 10)),
        (("--from", "-3", "-e"), range(7, 10)),
        (("--from", "3:5"), range(3, 5)),
        (("--from", ":2"), range(2)),
        (("--from", "end", "-e"), range(0)),
        (("--from", "@1h", "-e"), range(10)),
        (("--from", "@2020-01-01T00:00:@2020-01-02"), range(0)),
        (("--until", "now"), range(10)),
        (("--until", "end"), range(10)),
        (("--until", "4"), range(4)),
        (("--until", "-8"), range(2)),
        (("-n", "3"), range(3)),
        (("--tail", "2"), range(8, 10)),
        (("-e", "--grep", "[2-4]"), range(2, 5)),
        (("-e", "--partition", "0", "-n", "1"), range(1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_reading_begins_and_ends_at_its_places(run: Run, counted: str, flags: tuple[str, ...], numbers: range) -> None:
    assert run("consume", counted, *flags).stdout.split() == [str(number) for number in numbers]


def test_a_moment_to_come_is_waited_for(run: Run) -> None:
    run("topic", "create", "p-until", "-p", "2")
    run("produce", "p-until", given="early\n")
    # A clock that is ahead: this record is from later than the moment, and ends its partition.
    late = json.dumps({"value": "late", "partition": 1, "timestamp": time.time_ns() // 1_000_000 + 3_600_000})
    run("produce", "p-until", "-J", "--keep-partition", given=late + "\n")
    began = time.monotonic()
    result = run("consume", "p-until", "--until", "@+2s")

    assert (result.returncode, result.stdout) == (0, "early\n")
    assert time.monotonic() - began >= 1.5


def test_records_are_filtered_by_key_and_header(run: Run) -> None:
    run("topic", "create", "p-filter", "-p", "1")
    run("produce", "p-filter", "--key", "a", "-H", "x=1", given="first\n")
    run("produce", "p-filter", "--key", "b", "-H", "x=2", given="second\n")

    assert run("consume", "p-filter", "-e", "--key", "a").stdout == "first\n"
    assert run("consume", "p-filter", "-e", "-H", "x=2").stdout == "second\n"
    assert run("consume", "p-filter", "-e", "-H", "x").stdout == "first\nsecond\n"
    assert run("consume", "p-filter", "-e", "-H", "y").stdout == ""


def test_the_format_knows_kcats_and_rpks_letters(run: Run) -> None:
    run("topic", "create", "p-format", "-p", "1")
    run("produce", "p-format", "--key", "k", "-H", "a=b", given="v\n")
    form = r"%t %p %o %k %K %s %S %v{hex} %k{base64} %h %H %%\x41\t|"

    assert run("consume", "p-format", "-e", "-f", form).stdout == "p-format 0 0 k 1 v 1 76 aw== a=b 1 %A\t|"


def test_a_group_goes_on_where_it_stopped(run: Run, counted: str) -> None:
    seen = [run("consume", counted, "--group", "goer", "-n", "4").stdout.split() for _ in range(2)]
    rest = run("consume", counted, "--group", "goer", "-e").stdout.split()

    assert [*seen, rest] == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


def test_a_topic_is_made_by_writing_to_it(run: Run) -> None:
    result = run("produce", "p-new", "-v", given="hello\n")

    assert result.returncode == 0
    assert result.stderr.endswith("offsets 0 to 0\n")
    assert run("consume", "p-new", "-e").stdout == "hello\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("consume", "p-nowhere"), "there is no topic p-nowhere"),
        (
            ("consume", "p-x", "--from", "soon"),
            "'soon' is not a place in a topic: write start, end, an offset, +N, -N, ",
        ),
        (("consume", "p-counted", "--from", "11"), "--from 11 is beyond the end: partition 0 holds 0 to 9\n"),
        (("consume", "p-counted", "--from", "+30"), "--from +30 is beyond the end: partition 0 holds 0 to 9\n"),
        (("consume", "p-x", "--from", "10:5"), "there is nothing between the two ends of 10:5: the second must be "),
        (("consume", "p-x", "--from", "@1h:@2h"), "there is nothing between the two ends of @1h:@2h"),
        (
            ("consume", "p-x", "--from", "9", "--until", "9"),
            "there is nothing between the two ends of --from 9 --until",
        ),
        (("consume", "p-x", "--from", "9" * 40), f"'{'9' * 40}' is not a place in a topic"),
        (("consume", "p-x", "--from", "@9999999999999999"), "'9999999999999999' is after the year 9999"),
        (("consume", "p-counted", "-p", "7"), "topic p-counted has no partition 7: it has 0 to 0"),
        (("consume", "p-x", "-f", "%q"), "-f knows no %q: there are %t "),
        (("consume", "p-x", "-f", "%v{xml}"), "-f knows no {xml}: there are {hex} and {base64}"),
        (("consume", "p-x", "-n", "0"), "-n must be at least 1"),
        (("consume", "p-x", "-e", "--until", "3"), "set the end once: --until, -e, --tail or begin:end"),
        (("consume", "p-x", "--grep", "("), "--grep (: missing )"),
        (("produce", "p-x", "-H", "x"), "--header x should read name=value"),
        (("produce", "p-x", "--key", "a", "-k", ":"), "give --key or --key-delimiter, not both"),
        (("produce", "p-y", "-p", "99"), "topic p-y has no partition 99: it has 0 to 3"),
        (("produce", "p-y", "-J"), "line 1 is not an envelope: "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Run, counted: str, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments, given="no envelope\n")

    assert result.returncode == 1
    assert result.stderr.startswith(f"qanat: {message}")
    assert result.stderr.count("\n") == 1


def test_a_broker_that_is_not_there_is_one_sentence_at_once() -> None:
    began = time.monotonic()
    result = qanat("topic", "list", "--bootstrap", "127.0.0.1:1")

    assert result.returncode == 1
    assert result.stderr == "qanat: no broker can be reached: cannot connect to 127.0.0.1:1: nothing listens there\n"
    assert time.monotonic() - began < 60


def test_an_address_that_is_none_is_one_sentence() -> None:
    result = qanat("topic", "list", "--bootstrap", "here:now")

    assert result.stderr == "qanat: --bootstrap here:now: 'here:now' is no address: write host:port\n"


def test_a_terminal_is_not_at_the_mercy_of_records(run: Run, broker_address: str) -> None:
    run("topic", "create", "p-tty", "-p", "1")
    content = b"\x1b[31mred \x07 bell \xff f\xc3\xbcnf \xc2\x9b C1 \xe2\x80\xae bidi\ttab"
    run("produce", "p-tty", "--key", "\x1bk", given=content + b"\n")
    target = ("p-tty", "-e", "-b", broker_address)

    shown = on_terminal("consume", *target, "-f", r"%k=%v\n")
    assert shown == r"\x1bk=\x1b[31mred \x07 bell \xff fünf \x9b C1 \u202e bidi" + "\ttab\n"
    assert "\\u001bk" in on_terminal("consume", *target, "-J")
    assert on_terminal("consume", *target, "--raw", "-f", r"%k\n") == "\x1bk\n"
    piped = subprocess.run(
        [*QANAT, "consume", *target], capture_output=True, env=clean_environment(), timeout=TIMEOUT_SECONDS
    )
    assert piped.stdout == content + b"\n"


def test_a_line_that_is_too_long_is_named_and_those_before_it_are_taken(run: Run) -> None:
    run("topic", "create", "p-long", "-p", "1", "-c", "max.message.bytes=5000")
    result = run("produce", "p-long", given=b"one\ntwo\n" + b"x" * 5001 + b"\nfour\n")
    # Without an end in sight it is refused before all of it is read.
    endless = run("produce", "p-long", given=b"x" * 3_000_000)

    reason = "is longer than 5000 bytes, and topic p-long takes 5000 bytes (max.message.bytes)"
    assert result.stderr == f"qanat: line 3 {reason}; lines 1 to 2 were taken\n"
    assert endless.stderr == f"qanat: line 1 {reason}; nothing was taken before\n"
    assert run("consume", "p-long", "-e").stdout == "one\ntwo\n"


def test_records_that_the_broker_refuses_are_named_by_their_lines(run: Run) -> None:
    run("topic", "create", "p-refused", "-p", "1", "-c", "max.message.bytes=600000")
    lines = b"".join(b"%d" % number + b"x" * 300_000 + b"\n" for number in range(3)) + b"y" * 599_990 + b"\nlast\n"
    result = run("produce", "p-refused", given=lines)

    assert result.returncode == 1
    assert result.stderr.endswith("(MESSAGE_TOO_LARGE); lines 1 to 3 were taken, line 4 was not\n"), result.stderr
    assert run("consume", "p-refused", "-e", "-f", "%o %V\n").stdout.splitlines() == [
        "0 300001",
        "1 300001",
        "2 300001",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"value": "v", "timestamp": 1e400}', '"timestamp" is Infinity, not a whole number from -1 to '),
        (
            '{"value": "v", "timestamp": 99999999999999999999}',
            '"timestamp" is 99999999999999999999, not a whole number ',
        ),
        ('{"value": "v", "timestamp": -2}', '"timestamp" is -2, not a whole number from -1 to '),
        ('{"value": "v", "timestamp": true}', '"timestamp" is true, not a whole number'),
        ('{"value": "v", "partition": "0"}', '"partition" is "0", not a whole number from 0 to '),
        ('{"value": "v", "headers": 5}', '"headers" should be pairs, '),
        ('{"value": "v", "headers": [["a"]]}', '"headers" should be pairs, '),
        ('{"value": 5}', "5 is neither text nor null nor base64"),
        ('{"value": {"base64": "%"}}', ""),
        ('{"value": "\\ud800"}', ""),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "an object is needed"),
    ],
    ids=lambda value: value[:30],
)
def test_a_wrong_envelope_is_one_sentence_and_stops_there(run: Run, line: str, reason: str) -> None:
    topic = "p-wrong-envelope"
    run("topic", "create", topic, "-p", "1", "--if-not-exists")
    result = run("produce", topic, "-J", given=f'{{"value": "good"}}\n{line}\n')

    assert result.returncode == 1
    assert result.stderr.startswith(f"qanat: line 2 is not an envelope: {reason}")
    assert result.stderr.endswith("; line 1 was taken\n")


def test_a_name_that_no_topic_can_have_is_explained(run: Run) -> None:
    for command in ("produce", "consume"):
        spaced, long = run(command, "a b", given="x\n"), run(command, "x" * 300, given="x\n")

        assert spaced.stderr == (
            "qanat: there can be no topic 'a b': a name consists of letters a-z and A-Z, digits, and . _ -, "
            "and is neither empty nor . nor .. (INVALID_TOPIC_EXCEPTION)\n"
        )
        assert "a name has at most 249 characters, this has 300" in long.stderr


def test_a_broker_that_vanishes_while_lines_come_leaves_a_count(tmp_path: Path) -> None:
    with running_broker(tmp_path, command="dev") as broker:
        arguments = ("produce", "p-gone", "-b", broker.address, "--timeout", "1", "-v")
        process = subprocess.Popen(
            [*QANAT, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
        )
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        assert b"offsets 0 to" in process.stderr.readline()
        broker.process.kill()
        broker.process.wait()
        _, complaints = process.communicate(b"three\n", timeout=TIMEOUT_SECONDS)

    assert process.returncode == 1
    assert complaints.endswith(b"; lines 1 to 2 were taken, line 3 was not\n"), complaints
