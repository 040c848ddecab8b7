"""Seeded workload on one log: the same seed gives the same operations, byte for byte.

Every seed draws its own mix: tiny segments, a cleanup policy, codecs, and which operations are frequent, rare or absent
(swarm testing: without some operations the others reach further).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from qanat.log.files import Files
from qanat.log.settings import NEVER_MS, CleanupPolicy, LogSettings
from qanat.wire.compression import Codec
from verify.logs.log_rig import Content, LogRig

STEPS = 40


def drawn_settings(random: Random) -> LogSettings:
    """Small segments, so that they roll, and short delays, so that they expire."""
    return LogSettings(
        segment_bytes=random.choice((600, 1024, 2048, 4096)),
        index_interval_bytes=random.choice((0, 64, 200, 4096)),
        cleanup_policy=random.choice((CleanupPolicy.DELETE, CleanupPolicy.COMPACT, CleanupPolicy.BOTH)),
        retention_ms=random.choice((-1, 500, 5_000)),
        retention_bytes=random.choice((-1, 2_000, 6_000)),
        delete_retention_ms=random.choice((0, 300)),
        segment_ms=random.choice((700, 10**9)),
    )


class LogWorkload:
    """A rig, and the seeded generator that drives it."""

    def __init__(self, seed: int, files: Files, steps: int = STEPS) -> None:
        self.seed = seed
        self.random = Random(f"log workload {seed}")
        drawn = drawn_settings(self.random)
        # Drawn separately, as is whether files are ingested, so that the other draws of a seed stay the same.
        flush_messages = Random(f"flushes {seed}").choice((1, NEVER_MS))
        self.rig = LogRig(files, replace(drawn, flush_messages=flush_messages))
        self.steps = steps
        self._codecs = self.random.sample(tuple(Codec), 2)
        operations = self._weighted_operations()
        weights = [self.random.choice((0, 1, 3)) * weight for _, weight in operations]
        self._operations = [one for one, _ in operations]
        self._weights = [max(one, two) for one, two in zip(weights, (4, 2, 0, 2, 0, 2), strict=False)]
        self._weights += weights[len(self._weights) :]
        self._operations.append(self._ingest)
        self._weights.append(Random(f"adoptions {seed}").choice((0, 0, 6)))
        self._small_files = Random(f"small files {seed}")

    def run(self) -> None:
        for _ in range(self.steps):
            self.step()

    def step(self) -> None:
        self.rig.now_ms += self.random.choice((1, 20, 200))
        self.random.choices(self._operations, self._weights)[0]()

    def _weighted_operations(self) -> list[tuple[Callable[[], None], int]]:
        """Every operation and its weight; the first few are in every mix."""
        rig = self.rig
        return [
            (self._append, 4),
            (self._append_as, 4),
            (lambda: rig.retry(self._client()), 1),
            (self._end_transaction, 2),
            (lambda: rig.change_leader(is_entered=self.random.random() < 0.7), 1),
            (self._flush, 4),
            (rig.roll, 1),
            (lambda: rig.replicate(self.random.choice((rig.log.end_offset, rig.log.flushed_offset))), 4),
            (lambda: rig.delete_records(self._offset()), 1),
            (self._retain, 2),
            (self._compact, 3),
            (lambda: rig.truncate(self._offset()), 1),
            (lambda: rig.truncate_to_epoch(max(rig.leader_epoch - 1, 0)), 1),
            (lambda: rig.restart(self._offset() + self.random.choice((0, 50))), 1),
            (rig.take_checkpoint, 2),
            (rig.reopen, 1),
        ]

    def _offset(self) -> int:
        """An offset of the log, most often close to its end."""
        log = self.rig.log
        first = self.random.choice((log.segments[0].base_offset, log.log_start_offset, log.end_offset - 5))
        return self.random.randint(min(max(first, 0), log.end_offset), log.end_offset)

    def _client(self) -> int:
        return self.random.choice((1, 2, 3))

    def _content(self) -> Content:
        count = self.random.choice((1, 1, 2, 5))
        size = self.random.choice((1, 10, 100, 400)) // count
        records = []
        for _ in range(count):
            key = b"key %d" % self.random.randrange(4)
            value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.randint(0, size))
            records.append((key, value, self.random.choice((0, 0, 50))))
        return Content(tuple(records), self.random.choice(self._codecs))

    def _append(self) -> None:
        self.rig.append(self._content())

    def _append_as(self) -> None:
        self.rig.append_as(self._client(), self._content(), is_transactional=self.random.random() < 0.5)

    def _ingest(self) -> None:
        contents = [self._content() for _ in range(self.random.choice((1, 2, 7)))]
        client = self.random.choice((None, 1, 2, 3))
        is_transactional = self.random.random() < 0.5
        if self._small_files.random() < 0.3:
            self.rig.append_file(client, contents, is_transactional=is_transactional)
        else:
            self.rig.ingest(client, contents, is_transactional=is_transactional)

    def _end_transaction(self) -> None:
        bumps_epoch = self.random.random() < 0.3
        self.rig.end_transaction(self._client(), is_commit=self.random.random() < 0.5, bumps_epoch=bumps_epoch)

    def _flush(self) -> None:
        if self.random.random() < 0.3:
            self.rig.flush(self._append_as)
        else:
            self.rig.flush()

    def _retain(self) -> None:
        if self.random.random() < 0.5:
            # Many segments expire at once where retention has not run for a while.
            for _ in range(3):
                self._append()
                self.rig.roll()
            self.rig.now_ms += 6_000
            self.rig.flush()
            self.rig.replicate(self.rig.log.end_offset)
        self.rig.retain()

    def _compact(self) -> None:
        if not self.rig.settings.is_compacted:
            return
        if self.random.random() < 0.3:
            self.rig.compact(self.random.choice((self._append, self.rig.flush)))
        else:
            self.rig.compact()
