"""Crash sweep: a power cut at every operation of a workload; every crash image is recovered and checked.

A workload runs once on a seeded disk. Before every change of the disk, the sweep takes crash images in several
variants (`SimDisk.crash` is pure), so that one run gives them all. A failure names seed, cut and variant, and a sweep
of only these takes the same image again.

Each image must satisfy: recovery does not raise; the log is what its history allows (`log_checks`); a second recovery,
even after another power cut, changes nothing; appending continues. In some images recovery itself loses power, at each
of its own operations.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field, replace

from qanat.log.admission import admit
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.testing.simulation.crash_image import CrashMode
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import Act
from verify.logs.log_checks import check_recovered, log_files, require, summary
from verify.logs.log_rig import AT, DIRECTORY, FIRST_MS, Content, LogRig
from verify.logs.log_workload import STEPS, LogWorkload

VARIANTS = ("keep_all", "drop_all", "random-0", "random-1", "unordered-0", "unordered-1")
"""Kinds of crash images. `unordered` is a disk that preserves no order among names."""
UNCUT = "uncut"
"""The workload itself failed, without any power loss."""
_INTERRUPTED_EVERY = 40
_LATER_MS = FIRST_MS * 10
_PROBE = Content(((b"key 0", b"after the crash", 0),))


@dataclass(frozen=True, slots=True)
class Failure:
    """A crash image that fails the checks."""

    seed: int
    cut: int
    variant: str
    problem: str
    details: str

    @property
    def command(self) -> str:
        """The command that replays it."""
        variant = "" if self.variant == UNCUT else f" --variant {self.variant}"
        return f"python -m verify.logs --seed {self.seed} --cut {self.cut}{variant}"


@dataclass(slots=True)
class Outcome:
    """Counts and failures of a sweep."""

    workloads: int = 0
    images: int = 0
    operations: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class Sweep:
    """The crash images of one workload, all of them or one."""

    seed: int
    only_cut: int | None = None
    only_variant: str | None = None
    per_cut: int = len(VARIANTS)
    """How many variants of each cut are checked, in turn."""
    steps: int = STEPS
    """Number of the workload's operations; the first ones are the same for any number."""
    stops_early: bool = False
    """Whether the sweep ends at the first failure."""
    outcome: Outcome = field(default_factory=Outcome)
    disk: SimDisk = field(init=False)
    workload: LogWorkload = field(init=False)
    _is_watching: bool = False

    def run(self) -> Outcome:
        """Run the workload, and check its crash images."""
        self.disk = SimDisk(self.seed)
        self.disk.before_change = self._cut
        self.outcome.workloads += 1
        try:
            self.workload = LogWorkload(self.seed, self.disk, self.steps)
            self._is_watching = True
            self.workload.run()
        except Exception as error:  # noqa: BLE001 - any exception that stops the workload is a failure
            self._report(UNCUT, error)
        self.outcome.operations += self.disk.operations
        return self.outcome

    def _cut(self, act: Act) -> None:
        if not self._is_watching or self.only_cut not in (None, self.disk.operations):
            return
        if self.stops_early and self.outcome.failures:
            return
        for variant in self._variants():
            if self.only_variant in (None, variant):
                self.outcome.images += 1
                try:
                    self._check(variant)
                except Exception as error:  # noqa: BLE001 - recovery must not raise at all
                    self._report(variant, error)

    def _variants(self) -> tuple[str, ...]:
        first = self.disk.operations % len(VARIANTS) if self.per_cut < len(VARIANTS) else 0
        return (VARIANTS * 2)[first : first + self.per_cut]

    def _check(self, variant: str) -> None:
        rig = self.workload.rig
        image = crashed(self.disk, variant)
        is_interrupted = (self.disk.operations * len(VARIANTS) + VARIANTS.index(variant)) % _INTERRUPTED_EVERY == 0
        if is_interrupted:
            _recover_interrupted(crashed(self.disk, variant), rig)
        check_image(image, rig)

    def _report(self, variant: str, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        details = "".join(traceback.format_exception(error))
        self.outcome.failures.append(Failure(self.seed, self.disk.operations, variant, problem, details))


def crashed(disk: SimDisk, variant: str) -> SimDisk:
    """A disk as it may be after a power cut now."""
    name, _, number = variant.partition("-")
    if name == "unordered":
        before, disk.faults = disk.faults, replace(disk.faults, keeps_name_order=False)
        image = disk.crash("random", variant=1_000 + int(number))
        disk.faults = before
        return image
    modes: dict[str, CrashMode] = {"keep_all": "keep_all", "drop_all": "drop_all", "random": "random"}
    return disk.crash(modes[name], variant=int(number or 0))


def check_image(image: SimDisk, rig: LogRig) -> None:
    """Recover, check, cut the power again, recover again, append."""
    log = _opened(image, rig, rig.checkpoint)
    check_recovered(log, rig.history)
    known, content = summary(log, rig.history), log_files(image, DIRECTORY)
    again = image.crash("drop_all")
    log = _opened(again, rig, rig.checkpoint)
    require(log_files(again, DIRECTORY) == content, "a second recovery changes the files")
    seen = summary(log, rig.history)
    require(seen == known, f"a second recovery sees {seen}, the first saw {known}")
    _append_probe(log)


def _recover_interrupted(image: SimDisk, rig: LogRig) -> None:
    """Cut the power at each operation of the recovery itself."""

    def cut(act: Act) -> None:
        for variant in ("drop_all", "random-0", "unordered-0"):
            check_recovered(_opened(crashed(image, variant), rig, rig.checkpoint), rig.history)

    image.before_change = cut
    _opened(image, rig, rig.checkpoint)


def _opened(disk: SimDisk, rig: LogRig, checkpoint: Checkpoint) -> PartitionLog:
    return open_log(disk, DIRECTORY, AT, rig.settings, checkpoint)


def _append_probe(log: PartitionLog) -> None:
    """Append a batch to a recovered log, flush it and read it back."""
    batch = _PROBE.encoded(_LATER_MS, None)
    appended = log.append(admit(batch, log.settings, _LATER_MS, 1 << 20), 99, _LATER_MS)
    run_now(begin_flush(log))
    content = b"".join(bytes(view) for view in log.read(appended.base_offset, 1 << 20).views())
    require(content[16:] == batch[16:], f"what was appended at {appended.base_offset} cannot be read back")
    require(log.flushed_offset == log.end_offset, f"{log} reports that it is not flushed")
