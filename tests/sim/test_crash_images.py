"""Power losses at every operation of seeded workloads: nothing that was flushed is lost, nothing else is made up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from verify.logs.__main__ import main
from verify.logs.crash_sweep import UNCUT, VARIANTS, Outcome, Sweep
from verify.logs.log_checks import LogMismatchError, check_recovered
from verify.logs.log_rig import AT, DIRECTORY, Content, LogRig
from verify.logs.log_workload import LogWorkload

import qanat
from qanat.log.producers import ProducerState
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.settings import CleanupPolicy, LogSettings
from qanat.testing.simulation.disk import SimDisk

GROUPS, SEEDS_PER_GROUP = 10, 7
"""70 workloads, at least 5,000 images in all, a tenth of them in `make test`; `make sim-log` runs any number."""


@pytest.mark.parametrize(
    "group",
    [pytest.param(group, marks=[pytest.mark.long, pytest.mark.data] if group else []) for group in range(GROUPS)],
)
def test_c63_every_image_recovers_to_what_was_promised(group: int) -> None:
    outcome = Outcome()
    for seed in range(group * SEEDS_PER_GROUP, (group + 1) * SEEDS_PER_GROUP):
        Sweep(seed, per_cut=1, steps=26, outcome=outcome).run()

    assert not outcome.failures, "\n".join(f"{one.problem}\n  {one.command}" for one in outcome.failures[:5])
    assert outcome.images >= 500, "the workloads have become too small to find anything"


def test_the_workloads_roll_compact_truncate_expire_and_start_afresh() -> None:
    seen: set[str] = set()
    for seed in range(12):
        disk = SimDisk(seed)
        LogWorkload(seed, disk).run()
        seen |= {
            line.split()[1] + line.split()[2].rpartition(".")[1] + line.split()[2].rpartition(".")[2]
            for line in disk.trace
        }

    assert {"rename.cleaned", "rename.swap", "rename.truncated", "remove.log", "create.snapshot"} <= seen


def test_a_replay_takes_the_very_image_that_failed() -> None:
    whole = Sweep(3, per_cut=1).run()
    one = Sweep(3, only_cut=20, only_variant="random-1").run()

    assert (whole.workloads, one.workloads) == (1, 1)
    assert one.images == 1
    assert one.operations == whole.operations


def trace_hash(seed: int, hash_seed: str) -> str:
    program = (
        "from qanat.testing.simulation.disk import SimDisk; from verify.logs.log_workload import LogWorkload; "
        f"disk = SimDisk({seed}); LogWorkload({seed}, disk).run(); "
        "print(disk.trace_hash(), disk.crash('random').trace_hash())"
    )
    source = str(Path(qanat.__file__).parents[1])
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
    command = [sys.executable, "-c", program]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("seed", [1, 14])
def test_one_seed_gives_one_history_whatever_python_hashes(seed: int) -> None:
    assert trace_hash(seed, "1") == trace_hash(seed, "2")


def test_the_program_reports_counts_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--cut", "10", "--variant", "drop_all"]) == 0

    assert "1 workloads, 1 images" in capsys.readouterr().out


def test_the_program_fails_and_names_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr("verify.logs.crash_sweep.check_recovered", broken)

    assert main(["--seed", "5", "--cut", "10", "--variant", "drop_all"]) == 1
    assert "python -m verify.logs --seed 5 --cut 10 --variant drop_all" in capsys.readouterr().out


def test_the_program_stops_at_ctrl_c_with_the_report_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("verify.logs.__main__.Sweep", interrupted)

    assert main(["--workloads", "3"]) == 0
    assert "0 workloads" in capsys.readouterr().out


def test_a_workload_that_fails_without_a_power_loss_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr("verify.logs.log_rig.LogRig.flush", broken)

    failures = Sweep(2).run().failures

    assert [failure.variant for failure in failures] == [UNCUT]
    assert UNCUT not in VARIANTS


def test_a_replaced_producer_stays_out_after_compaction_even_without_snapshots() -> None:
    disk = SimDisk(1)
    settings = LogSettings(cleanup_policy=CleanupPolicy.COMPACT, delete_retention_ms=0, segment_bytes=1024)
    rig = LogRig(disk, settings)
    content = Content(((b"key", b"value", 0),))
    rig.append_as(1, content, is_transactional=True)
    rig.end_transaction(1, is_commit=True, bumps_epoch=True)
    for _ in range(4):
        rig.append(content)
        rig.roll()
        rig.flush()
        rig.replicate(rig.log.end_offset)
        rig.now_ms += 1
        rig.compact()
    for name in disk.list(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")

    log = open_log(disk, DIRECTORY, AT, settings, Checkpoint())

    assert log.producers.states[1].epoch == 1


def expired_rig() -> LogRig:
    """Everything has expired: the log is empty and remembers a producer."""
    rig = LogRig(SimDisk(1), LogSettings(cleanup_policy=CleanupPolicy.DELETE, retention_ms=500))
    rig.append_as(1, Content(((b"key", b"value", 0),)), is_transactional=False)
    rig.roll()
    rig.flush()
    rig.replicate(rig.log.end_offset)
    rig.now_ms += 6_000
    rig.retain()
    rig.flush()
    assert rig.log.segments[0].base_offset == rig.log.end_offset == 1
    return rig


def test_a_log_that_is_empty_may_be_as_it_was_where_it_is_told_to_go_on_there() -> None:
    rig = expired_rig()
    rig.history.begin_restart(1)

    check_recovered(rig.log, rig.history)
    del rig.log.producers.states[1]
    check_recovered(rig.log, rig.history)
    rig.log.producers.states[2] = ProducerState(0)
    with pytest.raises(LogMismatchError, match="a replay gives"):
        check_recovered(rig.log, rig.history)


def test_a_log_that_goes_on_empty_elsewhere_remembers_nothing() -> None:
    rig = expired_rig()
    states = dict(rig.log.producers.states)
    rig.restart(9)
    rig.history.oldest_start = rig.history.newest_start = 1
    rig.history.begin_restart(9)

    check_recovered(rig.log, rig.history)
    rig.log.producers.states.update(states)
    with pytest.raises(LogMismatchError, match="a restarted log remembers"):
        check_recovered(rig.log, rig.history)
