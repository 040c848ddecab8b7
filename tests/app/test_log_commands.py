"""`qanat log` on sound, torn, damaged and incomplete logs; it never changes one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qanat.app.main import run
from qanat.app.node.compose import clock_ms, open_log_directory
from qanat.log.admission import admit
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.settings import LogSettings
from qanat.model.ids import TopicPartition
from qanat.wire.records import Record, encode_batch

SETTINGS = LogSettings(segment_bytes=1000)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base directory with one partition of several segments, left as a killed process leaves it."""
    directory = open_log_directory(str(tmp_path / "broker-0"))
    log = directory.create(TopicPartition("orders", 0), "id", SETTINGS)
    for number in range(20):
        record = Record(number, clock_ms(), b"k\x1b[31m", b"v" * 100, (("h\x1b[2J", b"1"),))
        log.append(admit(encode_batch([record]), SETTINGS, clock_ms(), 1 << 20), 0, clock_ms())
    run_now(begin_flush(log))
    directory.state.fail(OSError("killed"))  # type: ignore[arg-type]  # Closing writes nothing then.
    directory.close()
    return tmp_path


def segments(base: Path) -> list[Path]:
    return sorted(base.glob("broker-0/orders-0/*.log"))


def verified(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = run(["log", "verify", str(path), "-o", "json"])
    return code, [row["state"] for row in json.loads(capsys.readouterr().out)]


def test_sound_segments_are_sound_wherever_one_points(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(segments(base))
    assert count > 2
    for path, expected in ((base, count), (base / "broker-0", count), (base / "broker-0" / "orders-0", count)):
        assert verified(path, capsys) == (0, ["sound"] * expected)
    assert verified(segments(base)[0], capsys) == (0, ["sound"])


def test_a_write_in_progress_is_no_damage_but_is_shown(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with segments(base)[-1].open("ab") as file:
        file.write(b"half a batch")
    code, states = verified(base, capsys)
    assert (code, states[-1]) == (0, "open tail of 12 bytes")

    (base / "broker-0" / ".kafka_cleanshutdown").write_text("x\n")
    code, states = verified(base, capsys)
    assert code == 1, "who stopped cleanly left no write in progress"
    assert states[-1].startswith("damaged at byte")


@pytest.mark.parametrize("which", [0, -1])
def test_a_flipped_bit_with_sound_batches_behind_it_is_damage(
    base: Path, which: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segments(base)[which]
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)

    code, states = verified(base, capsys)

    assert code == 1
    assert states[which].startswith("damaged at byte 0: checksum mismatch")
    assert run(["log", "dump", str(path)]) == 1
    assert "nothing from there on is shown" in capsys.readouterr().err


@pytest.mark.parametrize("byte", [6, 7, 15])
def test_an_offset_or_leader_epoch_that_has_changed_is_damage_of_one_batch(
    base: Path, byte: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checksum covers neither; the sidecar knows both."""
    path = segments(base)[1]
    content = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(content[8:12])
    content[size + byte] ^= 1
    path.write_bytes(content)

    assert run(["log", "verify", str(base), "--ranges", "-o", "json"]) == 1

    (damaged,) = json.loads(capsys.readouterr().out)
    first_offset = int(path.stem) + 1
    assert (damaged["partition"], damaged["segment"], damaged["byte"]) == ("orders-0", path.name, size)
    assert (damaged["first_offset"], damaged["next_offset"]) == (first_offset, first_offset + 1)

    assert run(["log", "verify", str(base)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("damaged: 1 ranges of offsets in 1 partitions")


def test_an_index_that_has_changed_is_shown_and_no_damage(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments(base)[0].with_suffix(".timeindex").write_bytes(b"rot")
    segments(base)[1].with_suffix(".sidecar").write_bytes(b"rot")

    code, states = verified(base, capsys)

    assert code == 0
    assert states[:2] == ["sound, .timeindex to be rebuilt", "sound, .sidecar to be rebuilt"]
    assert run(["log", "verify", str(base)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("sound: ")


def test_a_missing_segment_is_named_by_its_offsets(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in base.glob(f"broker-0/orders-0/{segments(base)[1].stem}.*"):
        file.unlink()
    code, states = verified(base, capsys)
    assert code == 1
    assert "before it are missing" in states[1]


def test_files_that_may_only_be_read_can_be_looked_at(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    for path in segments(base):
        path.chmod(0o444)
    assert verified(base, capsys)[0] == 0
    assert run(["log", "dump", str(segments(base)[0]), "--records"]) == 0
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_nothing_of_a_record_reaches_the_terminal_raw(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("table", "csv"):
        assert run(["log", "dump", str(segments(base)[0]), "--records", "--limit", "1", "-o", output]) == 0
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "nowhere"], "there is no log in nowhere"),
        (["dump", "nowhere"], "nowhere is not a file"),
        (["dump", "{segment}", "--limit", "0"], "--limit 0"),
        (["dump", "{segment}", "--limit", "-1"], "--limit -1"),
        (["dump", "{stray}"], "is not a segment"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(
    base: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = base / "stray.log"
    stray.write_bytes(b"")
    words = [word.format(segment=segments(base)[0], stray=stray) for word in arguments]
    assert run(["log", *words]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
